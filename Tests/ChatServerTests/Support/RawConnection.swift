import Foundation

/// A TCP connection that says just what it is told to.
final class RawConnection: Sendable {
    private let descriptor: Int32

    init(port: Int, receiveBufferBytes: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if var bytes = receiveBufferBytes { setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, 4) }
        var timeout = timeval(tv_sec: 15, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        guard result == 0 else { throw CocoaError(.fileReadUnknown) }
    }

    deinit { Foundation.close(descriptor) }

    func send(_ text: String) async { await send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) async {
        await aside { [descriptor] in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes { Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
                if count <= 0 { return }
                rest = rest.dropFirst(count)
            }
        }
    }

    /// At least so many bytes, if they come.
    func read(bytes: Int) async -> [UInt8] { await read { $0.count >= bytes } }

    func readToEnd() async -> [UInt8] { await read { _ in false } }

    /// Whether the server ends the connection before the socket's own time is over.
    func ends() async -> Bool {
        await aside { [descriptor] in
            var buffer = [UInt8](repeating: 0, count: 65_536)
            var count = 1
            while count > 0 { count = recv(descriptor, &buffer, buffer.count, 0) }
            return count == 0
        }
    }

    /// An HTTP head, as text.
    func readHead() async -> String {
        String(decoding: await read { String(decoding: $0, as: UTF8.self).contains("\r\n\r\n") }, as: UTF8.self)
    }

    private func read(until isEnough: @escaping @Sendable ([UInt8]) -> Bool) async -> [UInt8] {
        await aside { [descriptor] in
            var all: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while !isEnough(all) {
                let count = recv(descriptor, &buffer, buffer.count, 0)
                if count <= 0 { break }
                all += buffer[..<count]
            }
            return all
        }
    }

    /// What blocks must not do so on the few threads that the server's own tasks need.
    private func aside<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            Thread { continuation.resume(returning: body()) }.start()
        }
    }

    static let key = "dGhlIHNhbXBsZSBub25jZQ=="

    static func upgrade(
        path: String = "/v1/sync", upgrade: String? = "websocket", connection: String? = "Upgrade", key: String? = RawConnection.key, version: String? = "13",
        subprotocol: String? = "convstore.sync.v1", origin: String? = nil, method: String = "GET"
    ) -> String {
        var text = "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n"
        let headers = [
            ("Upgrade", upgrade), ("Connection", connection), ("Sec-WebSocket-Key", key), ("Sec-WebSocket-Version", version),
            ("Sec-WebSocket-Protocol", subprotocol), ("Origin", origin),
        ]
        for (name, value) in headers { if let value { text += "\(name): \(value)\r\n" } }
        return text + "\r\n"
    }

    /// A frame as a client masks it.
    static func frame(_ opcode: UInt8, _ payload: [UInt8], fin: Bool = true, isMasked: Bool = true, reserved: UInt8 = 0, length: UInt64? = nil) -> [UInt8] {
        let mask: UInt8 = isMasked ? 0x80 : 0
        var frame: [UInt8] = [(fin ? 0x80 : 0) | reserved << 4 | opcode]
        let count = length ?? UInt64(payload.count)
        if count < 126 {
            frame.append(mask | UInt8(count))
        } else if count < 65_536 {
            frame += [mask | 126, UInt8(count >> 8), UInt8(count & 0xFF)]
        } else {
            frame.append(mask | 127)
            for shift in stride(from: 56, through: 0, by: -8) { frame.append(UInt8(truncatingIfNeeded: count >> UInt64(shift))) }
        }
        let key: [UInt8] = isMasked ? [1, 2, 3, 4] : []
        frame += key
        return frame + (isMasked ? payload.enumerated().map { $1 ^ key[$0 & 3] } : payload)
    }

    static func afterHead(_ bytes: [UInt8]) -> [UInt8] {
        let end = bytes.indices.dropLast(3).first { bytes[$0..<$0 + 4] == [13, 10, 13, 10] }
        return end.map { Array(bytes[($0 + 4)...]) } ?? []
    }

    /// The code of the close frame at the end of what a server sent after its answer.
    static func closeCode(_ bytes: [UInt8]) -> Int? {
        var at = 0
        while at + 2 <= bytes.count {
            var count = Int(bytes[at + 1] & 0x7F)
            var start = at + 2
            if count == 126 {
                count = Int(bytes[at + 2]) << 8 | Int(bytes[at + 3])
                start += 2
            } else if count == 127 {
                count = bytes[(at + 2)..<(at + 10)].reduce(0) { $0 << 8 | Int($1) }
                start += 8
            }
            if bytes[at] & 15 == 8 { return count >= 2 ? Int(bytes[start]) << 8 | Int(bytes[start + 1]) : 1005 }
            at = start + count
        }
        return nil
    }
}
