/// The state of a log in forty bytes: how many events it has, and the root of the Merkle tree over them.
///
/// Heads are the entries of a store's heads log, whose own head a `Checkpoint` signs.
public struct Head: Hashable, Sendable {
    public let log: LogID
    /// The number of events: the greatest `seq`.
    public let size: UInt64
    public let root: Hash256

    public init(log: LogID, size: UInt64, root: Hash256) {
        self.log = log
        self.size = size
        self.root = root
    }
}

/// An entry of the heads log: one byte of kind (0 = a conversation, 1 = a user), the conversation's sixteen bytes or the user's name
/// in UTF-8, `size` in eight bytes (big-endian), `root` in thirty-two. What follows the name has a fixed length, so no two heads
/// share an encoding.
extension Head {
    private static let fixedBytes = 1 + 8 + Hash256.byteCount

    public var encoded: [UInt8] {
        var result: [UInt8] = []
        switch log {
        case .conversation(let id):
            result.append(0)
            result.append(contentsOf: id.bytes)
        case .user(let user):
            result.append(1)
            result.append(contentsOf: user.string.utf8)
        }
        withUnsafeBytes(of: size.bigEndian) { result.append(contentsOf: $0) }
        root.withUnsafeBytes { result.append(contentsOf: $0) }
        return result
    }

    /// `nil` for bytes that `encoded` cannot have given.
    public init?(encoded: [UInt8]) {
        let nameCount = encoded.count - Self.fixedBytes
        guard nameCount > 0, let root = Hash256(bytes: encoded.suffix(Hash256.byteCount)) else { return nil }
        let name = encoded[1..<1 + nameCount]
        switch encoded[0] {
        case 0:
            guard let id = ConversationID(bytes: name) else { return nil }
            log = .conversation(id)
        case 1:
            guard let text = String(validating: name, as: UTF8.self), let user = UserID(text) else { return nil }
            log = .user(user)
        default:
            return nil
        }
        size = encoded[(1 + nameCount)..<(9 + nameCount)].reduce(0) { $0 << 8 | UInt64($1) }
        self.root = root
    }

    /// The leaf of the entry in the heads log's tree (RFC 6962).
    package var leafHash: Hash256 { Merkle.leafHash(encoded) }
}
