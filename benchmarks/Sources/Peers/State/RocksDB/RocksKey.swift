import EventLog

/// The keys of ``RocksDatabase/Table``.
enum RocksKey {
    /// What of a conversation's a key in `people` is.
    enum Part: UInt8 {
        case participant = 0
        case receipt = 1
        case deleted = 2
    }

    static func conversation(_ id: ConversationID) -> [UInt8] { make(16) { $0.appendID(id) } }

    /// Of an event or a timeline row.
    static func seq(_ id: ConversationID, _ seq: Seq) -> [UInt8] {
        make(24) { key in
            key.appendID(id)
            key.appendFixed(seq)
        }
    }

    static func message(_ conversation: ConversationID, _ id: MessageID) -> [UInt8] {
        make(32) { key in
            key.appendID(conversation)
            key.appendID(id)
        }
    }

    static func position(_ position: Position) -> [UInt8] { make(8) { $0.appendFixed(position) } }

    /// Begins all keys of a user's: no name begins another's, as its length stands first.
    static func user(_ user: UserID) -> [UInt8] { make(32) { $0.appendText(user.string) } }

    static func member(_ user: UserID, _ conversation: ConversationID) -> [UInt8] {
        make(48) { key in
            key.appendText(user.string)
            key.appendID(conversation)
        }
    }

    static func own(_ user: UserID, _ seq: Seq) -> [UInt8] {
        make(40) { key in
            key.appendText(user.string)
            key.appendFixed(seq)
        }
    }

    static func people(_ conversation: ConversationID, _ part: Part) -> [UInt8] {
        make(48) { key in
            key.appendID(conversation)
            key.append(part.rawValue)
        }
    }

    static func people(_ conversation: ConversationID, _ part: Part, _ user: UserID) -> [UInt8] {
        var key = people(conversation, part)
        key.append(contentsOf: user.string.utf8)
        return key
    }

    static func deleted(_ conversation: ConversationID, _ seq: Seq) -> [UInt8] {
        var key = people(conversation, .deleted)
        key.appendFixed(seq)
        return key
    }

    private static func make(_ capacity: Int, _ body: (inout [UInt8]) -> Void) -> [UInt8] {
        var key: [UInt8] = []
        key.reserveCapacity(capacity)
        body(&key)
        return key
    }
}
