import CRocksDB
import EventLog

/// Loads what a commit touches.
final class RocksStateSource: StateSource {
    private let database: RocksDatabase
    let reading = rocksdb_readoptions_create()

    init(_ database: RocksDatabase) { self.database = database }

    deinit { rocksdb_readoptions_destroy(reading) }

    func nextKey() -> Int64 { 0 }

    func conversation(_ id: ConversationID) throws -> ConversationRecord? {
        try database.get(.conversations, RocksKey.conversation(id), reading, ConversationRecord.init)
    }

    func seq(of id: MessageID, in conversation: ConversationID) throws -> Seq? {
        try database.get(.ids, RocksKey.message(conversation, id), reading) { value in
            var reader = RowReader(value)
            return try reader.varint()
        }
    }

    func message(_ id: MessageID, in conversation: WorkingSet.Conversation) throws -> MessageRecord? {
        guard let seq = try seq(of: id, in: conversation.id) else { return nil }
        var record = try database.get(.messages, RocksKey.seq(conversation.id, seq), reading, MessageRecord.init)
        record?.seq = seq
        return record
    }

    func member(_ user: UserID, of conversation: WorkingSet.Conversation) throws -> MemberRecord? {
        try database.get(.members, RocksKey.member(user, conversation.id), reading, MemberRecord.init)
    }

    func receipt(_ user: UserID, in conversation: WorkingSet.Conversation) throws -> ReceiptRecord? {
        try database.get(.people, RocksKey.people(conversation.id, .receipt, user), reading, ReceiptRecord.init)
    }
}

/// Nothing is stored yet: the source of a build, and of what is new by nature.
struct NoStateSource: StateSource {
    func nextKey() -> Int64 { 0 }
    func conversation(_ id: ConversationID) throws -> ConversationRecord? { nil }
    func message(_ id: MessageID, in conversation: WorkingSet.Conversation) throws -> MessageRecord? { nil }
    func member(_ user: UserID, of conversation: WorkingSet.Conversation) throws -> MemberRecord? { nil }
    func receipt(_ user: UserID, in conversation: WorkingSet.Conversation) throws -> ReceiptRecord? { nil }
}
