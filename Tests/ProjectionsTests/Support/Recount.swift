import ConversationStore

/// What screens must show, counted again from the events: plain and slow.
struct Recount {
    struct Message {
        var id: MessageID
        var seq: Seq
        var author: UserID
        var role: Event.Role
        var text: String
        var state: MessageState
        var chunks: UInt32 = 0
    }

    struct Conversation {
        var messages: [Message] = []
        var places: [Seq: Int] = [:]
        var people: Set<UserID> = []
        var read: [UserID: Seq] = [:]
        var delivered: [UserID: Seq] = [:]
        var order: HLC
        var seq: Seq = 1

        func unread(_ user: UserID) -> UInt64 {
            let mark = max(read[user] ?? 0, messages.last { $0.author == user }?.seq ?? 0)
            var count: UInt64 = 0
            for message in messages.reversed() {
                if message.seq <= mark { break }
                if message.state != .deleted, message.author != user { count += 1 }
            }
            return count
        }
    }

    private(set) var conversations: [ConversationID: Conversation] = [:]
    /// The effective time of each message's edit that won.
    private var edits: [MessageID: (UInt64, ReplicaID, UInt64)] = [:]

    init() {}

    init(_ events: [RecordedEvent]) { for event in events { take(event) } }

    mutating func take(_ event: RecordedEvent) {
        let id = event.event.conversation
        if case .conversationCreated(_, _, let people) = event.event.content {
            conversations[id] = Conversation(people: Set(people + [event.event.author]), order: event.hlc)
            return
        }
        if case .user = event.log { return }
        conversations[id]!.seq = event.seq
        let place = event.targetSeq.flatMap { conversations[id]!.places[$0] }
        switch event.event.content {
        case .participantJoined(let user): conversations[id]!.people.insert(user)
        case .participantLeft(let user): conversations[id]!.people.remove(user)
        case .messageSent(let message):
            conversations[id]!.places[event.seq] = conversations[id]!.messages.count
            conversations[id]!.order = event.hlc
            conversations[id]!.messages.append(
                Message(
                    id: message.id, seq: event.seq, author: event.event.author, role: message.role, text: message.text,
                    state: event.isErased ? .erased : message.isStreaming ? .streaming : .complete))
        case .chunkAppended(_, _, let text):
            conversations[id]!.messages[place!].text += text
            conversations[id]!.messages[place!].chunks += 1
        case .messageCompleted: conversations[id]!.messages[place!].state = .complete
        case .messageInterrupted: conversations[id]!.messages[place!].state = .interrupted
        case .messageEdited(let message, let text):
            let stamp = (min(event.origin.hlc.rawValue, event.hlc.rawValue), event.origin.replica, event.origin.counter)
            if let old = edits[message], stamp <= old { return }
            edits[message] = stamp
            conversations[id]!.messages[place!].text = text
        case .messageDeleted:
            conversations[id]!.messages[place!].state = .deleted
            conversations[id]!.messages[place!].text = ""
        case .receiptRead: conversations[id]!.read[event.event.author] = event.targetSeq!
        case .receiptDelivered: conversations[id]!.delivered[event.event.author] = event.targetSeq!
        default: break
        }
    }

    /// A user's conversations, newest first.
    func lobby(_ user: UserID) -> [ConversationID] {
        conversations.filter { $0.value.people.contains(user) }.sorted { $0.value.order > $1.value.order }.map(\.key)
    }
}

extension Message {
    /// Whether it shows what was counted again.
    func isLike(_ other: Recount.Message) -> Bool {
        id == other.id && seq == other.seq && author == other.author && role == other.role && text.utf8.elementsEqual(other.text.utf8)
            && state == other.state && chunks == other.chunks
    }
}
