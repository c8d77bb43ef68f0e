import EventLog

/// Where state that a commit touches comes from.
protocol StateSource {
    func conversation(_ id: ConversationID) throws -> ConversationRecord?
    /// The key of a new conversation.
    func nextKey() -> Int64
    func message(_ id: MessageID, in conversation: StateRow<ConversationID, ConversationRecord>) throws -> MessageRecord?
    func member(_ user: UserID, of conversation: StateRow<ConversationID, ConversationRecord>) throws -> MemberRecord?
    func receipt(_ user: UserID, in conversation: StateRow<ConversationID, ConversationRecord>) throws -> ReceiptRecord?
}

/// A row in a commit's memory.
final class StateRow<ID, Value> {
    let conversation: ConversationID
    let id: ID
    var value: Value
    /// As the database has it; `nil` if the row is new.
    let stored: Value?
    fileprivate(set) var isChanged = false

    init(_ conversation: ConversationID, _ id: ID, _ value: Value, isStored: Bool) {
        (self.conversation, self.id, self.value, stored) = (conversation, id, value, isStored ? value : nil)
    }

    var isStored: Bool { stored != nil }
}

/// The rows that a commit reads and changes: each is loaded once and written once, however many of the commit's events touch it.
struct WorkingSet {
    typealias Conversation = StateRow<ConversationID, ConversationRecord>
    typealias Message = StateRow<MessageID, MessageRecord>
    typealias Member = StateRow<UserID, MemberRecord>
    typealias Receipt = StateRow<UserID, ReceiptRecord>

    struct Key<ID: Hashable>: Hashable {
        var conversation: ConversationID
        var id: ID
    }

    let source: any StateSource
    private var conversations: [ConversationID: Conversation] = [:]
    private var messages: [Key<MessageID>: Message] = [:]
    private var members: [Key<UserID>: Member] = [:]
    private var receipts: [Key<UserID>: Receipt] = [:]
    /// What is to be written, in the order in which it was first touched.
    private(set) var changedConversations: [Conversation] = []
    private(set) var changedMessages: [Message] = []
    private(set) var changedMembers: [Member] = []
    private(set) var changedReceipts: [Receipt] = []

    init(_ source: any StateSource) { self.source = source }

    mutating func removeAll() {
        conversations.removeAll(keepingCapacity: true)
        messages.removeAll(keepingCapacity: true)
        members.removeAll(keepingCapacity: true)
        receipts.removeAll(keepingCapacity: true)
        changedConversations.removeAll(keepingCapacity: true)
        changedMessages.removeAll(keepingCapacity: true)
        changedMembers.removeAll(keepingCapacity: true)
        changedReceipts.removeAll(keepingCapacity: true)
    }

    mutating func conversation(_ id: ConversationID) throws -> Conversation? {
        if let row = conversations[id] { return row }
        guard let record = try source.conversation(id) else { return nil }
        let row = Conversation(id, id, record, isStored: true)
        conversations[id] = row
        return row
    }

    mutating func add(_ id: ConversationID, _ record: ConversationRecord) -> Conversation {
        let row = Conversation(id, id, record, isStored: false)
        row.value.key = source.nextKey()
        conversations[id] = row
        return row
    }

    mutating func message(_ id: MessageID, in conversation: Conversation) throws -> Message? {
        let key = Key(conversation: conversation.id, id: id)
        if let row = messages[key] { return row }
        guard let record = try source.message(id, in: conversation) else { return nil }
        let row = Message(conversation.id, id, record, isStored: true)
        messages[key] = row
        return row
    }

    mutating func add(_ record: MessageRecord, to conversation: Conversation) -> Message {
        let row = Message(conversation.id, record.id, record, isStored: false)
        messages[Key(conversation: conversation.id, id: record.id)] = row
        return row
    }

    mutating func member(_ user: UserID, of conversation: Conversation) throws -> Member {
        let key = Key(conversation: conversation.id, id: user)
        if let row = members[key] { return row }
        let record = conversation.isStored ? try source.member(user, of: conversation) : nil
        let row = Member(conversation.id, user, record ?? MemberRecord(), isStored: record != nil)
        members[key] = row
        return row
    }

    mutating func receipt(_ user: UserID, in conversation: Conversation) throws -> Receipt {
        let key = Key(conversation: conversation.id, id: user)
        if let row = receipts[key] { return row }
        let record = conversation.isStored ? try source.receipt(user, in: conversation) : nil
        let row = Receipt(conversation.id, user, record ?? ReceiptRecord(), isStored: record != nil)
        receipts[key] = row
        return row
    }

    mutating func note(_ row: Conversation) { Self.note(row, in: &changedConversations) }
    mutating func note(_ row: Message) { Self.note(row, in: &changedMessages) }
    mutating func note(_ row: Member) { Self.note(row, in: &changedMembers) }
    mutating func note(_ row: Receipt) { Self.note(row, in: &changedReceipts) }

    private static func note<ID, Value>(_ row: StateRow<ID, Value>, in list: inout [StateRow<ID, Value>]) {
        guard !row.isChanged else { return }
        row.isChanged = true
        list.append(row)
    }
}

extension WorkingSet {
    /// The short key of a conversation of whose rows some were changed.
    mutating func key(_ id: ConversationID) throws -> Int64 {
        guard let row = try conversation(id) else { throw EngineError("a row of no conversation") }
        return row.value.key
    }
}
