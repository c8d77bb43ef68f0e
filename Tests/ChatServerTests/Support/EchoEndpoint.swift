import ChatServer
import EventLog
import Replication
import ReplicationWebSocket

/// Answers each message with itself; `close:CODE` closes, `flood:BYTES` sends so much, and `drip:BYTES` does as the socket takes it. What came
/// is kept.
final class EchoEndpoint: SyncEndpoint {
    struct Seen {
        var messages: [[UInt8]] = []
        var ends: [SocketEnd?] = []
        var sockets: [Socket] = []
        var ticks = 0
        /// How often something came of a message that was not whole.
        var progress = 0
        /// Calls of one socket that were under way at once, at most.
        var atOnceMax = 0
    }

    let seen = Monitor(Seen())
    /// Says goodbye at a shutdown, as a hub does.
    let isPolite: Bool
    private let delayMicroseconds: UInt32

    init(isPolite: Bool = true, delayMicroseconds: UInt32 = 0) {
        self.isPolite = isPolite
        self.delayMicroseconds = delayMicroseconds
    }

    func connect(_ socket: Socket) -> any SocketReceiver {
        seen.withLock { $0.sockets.append(socket) }
        return Echo(endpoint: self, socket: socket, delayMicroseconds: delayMicroseconds)
    }

    func tick() { seen.withLock { $0.ticks += 1 } }

    func shutdown() {
        guard isPolite else { return }
        for socket in seen.withLock({ $0.sockets }) {
            socket.send(Array("bye".utf8))
            socket.close(SocketEnd(1001, "so long"))
        }
    }

    var hindrance: String? { nil }
    var statistics: HubStatistics? { nil }

    private final class Echo: SocketReceiver {
        private let endpoint: EchoEndpoint
        private let socket: Socket
        private let delayMicroseconds: UInt32
        private let atOnce = Monitor(0)
        /// Messages that are still to be sent, of 64 KiB.
        private let dripping = Monitor(0)

        init(endpoint: EchoEndpoint, socket: Socket, delayMicroseconds: UInt32) {
            self.endpoint = endpoint
            self.socket = socket
            self.delayMicroseconds = delayMicroseconds
        }

        func receive(_ message: [UInt8]) {
            let count = atOnce.withLock {
                $0 += 1
                return $0
            }
            defer { atOnce.withLock { $0 -= 1 } }
            endpoint.seen.withLock {
                $0.messages.append(message)
                $0.atOnceMax = max($0.atOnceMax, count)
            }
            if delayMicroseconds > 0 { pause(microseconds: delayMicroseconds) }
            let text = message.count < 100 ? String(decoding: message, as: UTF8.self) : ""
            if text.hasPrefix("close:"), let code = UInt16(text.dropFirst(6)) { return socket.close(SocketEnd(code, "as you wish")) }
            if text.hasPrefix("drip:"), let bytes = Int(text.dropFirst(5)) {
                dripping.withLock { $0 = bytes >> 16 }
                return drip()
            }
            guard text.hasPrefix("flood:"), let bytes = Int(text.dropFirst(6)) else { return socket.send(message) }
            for _ in 0..<(bytes >> 20) { socket.send(Array(repeating: 7, count: 1 << 20)) }
        }

        func drained() { drip() }
        func progressed() { endpoint.seen.withLock { $0.progress += 1 } }

        private func drip() {
            dripping.withLock { left in
                while left > 0, socket.takesMore {
                    socket.send(Array(repeating: 7, count: 1 << 16))
                    left -= 1
                }
            }
        }

        func ended(_ end: SocketEnd?) { endpoint.seen.withLock { $0.ends.append(end) } }
    }
}
