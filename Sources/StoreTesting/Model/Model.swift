package import ConversationStore

/// What every screen must show, told again from the events: the rules of the project's `fold.py` on plain arrays and dictionaries.
///
/// Slow and plain on purpose, and without a line of `Projections`. It takes the decided events of all logs, each log's in the order of seq;
/// messages are found by their ids, not by the seq that the hub wrote beside them.
package struct Model {
    /// A last-write-wins register: the greatest (effective time, origin) wins.
    struct Register<Value> {
        var value: Value
        var stamp: (time: UInt64, replica: ReplicaID, counter: UInt64)?

        init(_ value: Value) { self.value = value }

        /// Answers whether it has won.
        @discardableResult
        mutating func write(_ new: Value, _ event: RecordedEvent) -> Bool {
            // A clock in the future counts as the hub's own when it accepted the event.
            let stamp = (min(event.origin.hlc.rawValue, event.hlc.rawValue), event.origin.replica, event.origin.counter)
            if let old = self.stamp, stamp <= old { return false }
            value = new
            self.stamp = stamp
            return true
        }
    }

    struct Message {
        var id: MessageID
        var seq: Seq
        var author: UserID
        var role: Event.Role
        var text: Register<String>
        var replyTo: MessageID?
        var state: String
        /// Whether something of what its author first wrote was erased, and whether the edit that won was.
        var isErased: Bool
        var isEditErased = false
        var chunks: UInt32 = 0
        var isEdited = false
        var sentAt: UInt64
        var reactions: [ByteText: [UserID: Register<Bool>]] = [:]
        var finishReason: String?
        var interruptedReason: String?
    }

    struct Conversation {
        var kind: Event.ConversationKind
        var title = Register<String?>(nil)
        var participants: Set<UserID>
        /// By seq.
        var messages: [Message] = []
        /// Messages up to here are not shown and count in nothing.
        var hiddenSeq: Seq
        var delivered: [UserID: Seq] = [:]
        var read: [UserID: Seq] = [:]
        /// The hub's clock at the last message, or at the creation.
        var order: HLC

        var shown: ArraySlice<Message> { messages.drop { $0.seq <= hiddenSeq } }

        func place(_ id: MessageID) -> Int? { messages.firstIndex { $0.id == id } }
    }

    private(set) var conversations: [ConversationID: Conversation] = [:]
    private(set) var preferences: [UserID: [ConversationID: [ByteText: Register<String?>]]] = [:]
    private let hidden: [ConversationID: Seq]

    /// `hidden`: as if no message had been sent up to these seqs, nor a receipt.
    package init(_ events: some Sequence<RecordedEvent>, hidden: [ConversationID: Seq] = [:]) {
        self.hidden = hidden
        for event in events { take(event) }
    }

    package var conversationIDs: [ConversationID] { conversations.keys.sorted() }

    private mutating func take(_ event: RecordedEvent) {
        let id = event.event.conversation
        let author = event.event.author
        if case .preferenceSet(let key, let value) = event.event.content {
            if event.isErased { return }
            preferences[author, default: [:]][id, default: [:]][ByteText(key), default: Register(nil)].write(value, event)
            return
        }
        if case .conversationCreated(let kind, let title, let people) = event.event.content {
            var new = Conversation(kind: kind, participants: Set(people + [author]), hiddenSeq: hidden[id] ?? 0, order: event.hlc)
            if let title { new.title.write(title, event) }
            conversations[id] = new
            return
        }
        guard var conversation = conversations[id] else { return }
        // Changed in place below, without a second copy of its messages.
        conversations[id] = nil
        defer { conversations[id] = conversation }
        switch event.event.content {
        case .conversationUpdated(let title, _): if let title, !event.isErased { conversation.title.write(title, event) }
        case .participantJoined(let user): conversation.participants.insert(user)
        case .participantLeft(let user): conversation.participants.remove(user)
        case .messageSent(let message):
            conversation.messages.append(Message(message, event))
            if event.seq > conversation.hiddenSeq { conversation.order = event.hlc }
        case .chunkAppended(let message, _, let text):
            guard let place = conversation.place(message), conversation.messages[place].state == "streaming" else { return }
            if event.isErased { conversation.messages[place].isErased = true } else { conversation.messages[place].text.value += text }
            conversation.messages[place].chunks += 1
        case .messageCompleted(let message, let reason, _):
            guard let place = conversation.place(message), conversation.messages[place].state == "streaming" else { return }
            conversation.messages[place].state = "complete"
            conversation.messages[place].finishReason = event.isErased || reason?.isEmpty ?? true ? nil : reason
        case .messageInterrupted(let message, let reason):
            guard let place = conversation.place(message), conversation.messages[place].state == "streaming" else { return }
            conversation.messages[place].state = "interrupted"
            conversation.messages[place].interruptedReason = event.isErased ? "" : reason
        case .messageEdited(let message, let text):
            guard let place = conversation.place(message), conversation.messages[place].state != "deleted" else { return }
            conversation.messages[place].isEdited = true
            if conversation.messages[place].text.write(event.isErased ? "" : text, event) { conversation.messages[place].isEditErased = event.isErased }
        case .messageDeleted(let message):
            guard let place = conversation.place(message) else { return }
            conversation.messages[place].state = "deleted"
        case .reactionSet(let message, let emoji, let isOn):
            guard !event.isErased, let place = conversation.place(message), conversation.messages[place].state != "deleted" else { return }
            conversation.messages[place].reactions[ByteText(emoji), default: [:]][author, default: Register(false)].write(isOn, event)
        case .receiptDelivered where event.seq <= conversation.hiddenSeq, .receiptRead where event.seq <= conversation.hiddenSeq: break
        case .receiptDelivered(let message):
            guard let place = conversation.place(message) else { return }
            conversation.delivered[author] = max(conversation.delivered[author] ?? 0, conversation.messages[place].seq)
        case .receiptRead(let message):
            guard let place = conversation.place(message) else { return }
            conversation.read[author] = max(conversation.read[author] ?? 0, conversation.messages[place].seq)
        case .custom, .unknown, .conversationCreated, .preferenceSet: break
        }
    }
}

extension Model.Message {
    fileprivate init(_ message: Event.Message, _ event: RecordedEvent) {
        // Of an erased one there is left who sent it when, and what it answers.
        self.init(
            id: message.id, seq: event.seq, author: event.event.author, role: event.isErased ? .user : message.role,
            text: Model.Register(event.isErased ? "" : message.text), replyTo: message.replyTo,
            state: message.isStreaming && !event.isErased ? "streaming" : "complete", isErased: event.isErased, sentAt: event.origin.hlc.milliseconds)
    }

    /// What is shown as its state.
    var shownState: String {
        if state == "deleted" { return state }
        let isGone = text.stamp == nil ? isErased : isEditErased
        return isGone ? "erased" : state
    }
}
