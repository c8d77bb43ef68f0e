/// Why a WebSocket ended: a close code of RFC 6455, or from 4000 on one of docs/PROTOCOL.md, and a few words.
public struct SocketEnd: Hashable, Sendable {
    public var code: UInt16
    /// At most 123 bytes of it are sent. Never a user's text.
    public var reason: String

    public init(_ code: UInt16, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    public static let normal = SocketEnd(1000, "")
    public static let goingAway = SocketEnd(1001, "going away")
    static let onlyBinary = SocketEnd(1003, "only binary messages are taken")
    static let tooLarge = SocketEnd(1009, "the message is too large")
    static let tooSlow = SocketEnd(4408, "nothing came in time")
    static let excess = SocketEnd(4429, "too much waits for the rest of its message")
    static let overload = SocketEnd(4429, "too much waits to be read")

    static func malformed(_ what: String) -> SocketEnd { SocketEnd(1002, what) }

    /// RFC 6455, section 7.4: whether a peer may put the code into a close frame.
    var isSendable: Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }
}
