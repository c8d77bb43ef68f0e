import ConversationStore
import EventLog
import Replication
import ReplicationWebSocket
import Synchronization

/// A new device that throws away what it is sent, and so costs the hub all that a first sync does and this machine nothing more.
final class Drain: Sendable {
    private struct State {
        var owed = 0
        var bytes = 0
        var caughtUpAt: UInt64?
        var failure: String?
    }

    private static let window: UInt64 = 8 << 20
    private let state = Mutex(State())
    private let client = Mutex<WebSocketClient?>(nil)

    init(_ url: String, user: UserID, number: UInt8) async throws {
        let client = try await WebSocketClient.connect(to: url) { [self] message in
            received(message)
        } onClose: { _, _ in
        }
        self.client.withLock { $0 = client }
        let nonce = [UInt8](repeating: number, count: 16)
        let hello =
            Protobuf.number(1, 1) + Protobuf.number(2, 1) + Protobuf.bytes(3, Replicas.id(user: user, nonce: nonce).bytes) + Protobuf.bytes(4, nonce)
            + Protobuf.bytes(5, Array(user.string.utf8)) + Protobuf.number(9, Self.window)
        client.send(Protobuf.bytes(1, hello))
    }

    private func received(_ message: [UInt8]) {
        let now = nanoseconds()
        guard let frame = try? Frame(decoding: message) else { return state.withLock { $0.failure = "the hub sent no frame" } }
        switch frame {
        case .segment, .events, .base:
            let credit = state.withLock { state -> Int in
                state.bytes += message.count
                state.owed += message.count
                guard state.owed >= 1 << 20 else { return 0 }
                defer { state.owed = 0 }
                return state.owed
            }
            if credit > 0 { client.withLock { $0 }?.send(Protobuf.bytes(10, Protobuf.number(1, UInt64(credit)))) }
        case .caughtUp: state.withLock { if $0.caughtUpAt == nil { $0.caughtUpAt = now } }
        case .bye(let bye): state.withLock { $0.failure = "BYE \(bye.code) \(bye.reason)" }
        case .ping(let id): client.withLock { $0 }?.send(Frame.pong(id).encoded())
        default: break
        }
    }

    var bytes: Int { state.withLock { $0.bytes } }

    func caughtUpAt() throws -> UInt64? {
        let (at, failure) = state.withLock { ($0.caughtUpAt, $0.failure) }
        if let failure { throw DeviceError(failure) }
        return at
    }

    func close() { client.withLock { $0 }?.close() }
}
