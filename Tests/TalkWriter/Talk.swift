import ConversationStore
import StoreTesting

/// Random events of a few conversations, each of which a store accepts when it gets them in order.
struct Talk {
    struct Message {
        var id: MessageID
        var author: Int
        var isOpen: Bool
        var isDeleted = false
        var chunks: UInt32 = 0
    }

    struct Conversation {
        var id: ConversationID
        var people: Set<Int>
        var messages: [Message] = []
        /// Indices of messages that are being streamed.
        var open: [Int] = []
        /// Indices of the furthest messages that each has got and read.
        var delivered: [Int: Int] = [:]
        var read: [Int: Int] = [:]
    }

    static let users = ["ann", "bob", "cy", "dee", "ユーザー", "o'brien@example.org", "fay", "gus"].map { UserID($0)! }
    private static let words = ["hello", "é", "e\u{301}", "東京", "👩‍👩‍👧‍👦", "tab \t", "line\n", "\"quote\"", "stream", "token", "", "0 1 2 3"]

    var random: SeededGenerator
    private(set) var conversations: [Conversation] = []
    private let size: Int
    /// How often the first conversation is chosen.
    private let bias: Double

    init(seed: UInt64, conversations: Int = 6, bias: Double = 0.3) {
        random = SeededGenerator(seed: seed)
        size = conversations
        self.bias = bias
    }

    /// Goes on with a conversation of a store.
    mutating func adopt(_ page: TimelinePage, participants: [UserID]) {
        let people = Set(participants.compactMap { Self.users.firstIndex(of: $0) })
        var conversation = Conversation(id: page.conversation, people: people)
        for message in page.messages {
            guard let author = Self.users.firstIndex(of: message.author) else { continue }
            if message.state == .streaming { conversation.open.append(conversation.messages.count) }
            conversation.messages.append(
                Message(
                    id: message.id, author: author, isOpen: message.state == .streaming, isDeleted: message.state == .deleted, chunks: message.chunks))
        }
        for mark in page.receipts.marks {
            guard let user = Self.users.firstIndex(of: mark.user) else { continue }
            conversation.delivered[user] = page.messages.lastIndex { $0.seq <= mark.deliveredTo }
            conversation.read[user] = page.messages.lastIndex { $0.seq <= mark.readTo }
        }
        conversations.append(conversation)
    }

    mutating func text(_ most: Int = 6) -> String { (0..<random.below(most + 1)).map { _ in random.element(Self.words) }.joined(separator: " ") }

    mutating func next() -> Event {
        if conversations.isEmpty || (conversations.count < size && random.chance(0.02)) { return create() }
        let place = random.chance(bias) ? 0 : random.below(conversations.count)
        while true { if let event = event(in: place) { return event } }
    }

    private mutating func create() -> Event {
        let people = Set((0..<random.below(4) + 2).map { _ in random.below(Self.users.count) })
        let author = random.element(people.sorted())
        let id = ConversationID(high: random.next(), low: random.next())
        conversations.append(Conversation(id: id, people: people))
        return Event(
            conversation: id, author: Self.users[author],
            content: .conversationCreated(
                kind: random.element(Event.ConversationKind.allCases), title: random.chance(0.5) ? text() : nil,
                participants: people.sorted().map { Self.users[$0] }))
    }

    private mutating func event(in place: Int) -> Event? {
        let id = conversations[place].id
        let author = random.element(conversations[place].people.sorted())
        func by(_ author: Int, _ content: Event.Content) -> Event { Event(conversation: id, author: Self.users[author], content: content) }
        let count = conversations[place].messages.count
        let roll = random.below(1000)
        if let open = conversations[place].open.last, roll < 450 {
            let message = conversations[place].messages[open]
            guard conversations[place].people.contains(message.author) else {
                close(open, in: place)
                return by(author, .messageInterrupted(message: message.id, reason: "gone"))
            }
            if random.chance(0.9) {
                conversations[place].messages[open].chunks += 1
                return by(message.author, .chunkAppended(message: message.id, index: message.chunks, text: text(3)))
            }
            close(open, in: place)
            if random.chance(0.3) { return by(author, .messageInterrupted(message: message.id, reason: "stop")) }
            return by(
                message.author,
                .messageCompleted(
                    message: message.id, finishReason: random.element([nil, "", "stop"]),
                    usage: random.chance(0.5) ? Event.Usage(inputTokens: 3, outputTokens: UInt64(message.chunks)) : nil))
        }
        if roll < 700 || count == 0 {
            let isStreaming = conversations[place].open.isEmpty && random.chance(0.08)
            let new = MessageID(high: random.next(), low: random.next())
            let reply = count > 0 && random.chance(0.1) ? conversations[place].messages[random.below(count)].id : nil
            if isStreaming { conversations[place].open.append(count) }
            conversations[place].messages.append(Message(id: new, author: author, isOpen: isStreaming))
            // Roles that are not the user's are rare: a conversation has a handful of system messages.
            let role = random.chance(0.02) ? Event.Role.system : random.element([.user, .user, .assistant, .tool])
            let message = Event.Message(
                id: new, role: role, text: random.chance(0.02) ? String(repeating: text(), count: 60) : text(), isStreaming: isStreaming, replyTo: reply,
                parts: random.chance(0.05) ? #"[{"kind":"image"}]"# : nil)
            return by(author, .messageSent(message))
        }
        // Near the end as a rule, anywhere at times.
        let at = random.chance(0.7) ? max(0, count - 1 - random.below(20)) : random.below(count)
        let message = conversations[place].messages[at]
        let isAuthorIn = conversations[place].people.contains(message.author)
        switch roll {
        case ..<780:
            guard at > conversations[place].read[author] ?? -1 else { return nil }
            conversations[place].read[author] = at
            return by(author, .receiptRead(upTo: message.id))
        case ..<820:
            guard at > conversations[place].delivered[author] ?? -1 else { return nil }
            conversations[place].delivered[author] = at
            return by(author, .receiptDelivered(upTo: message.id))
        case ..<880:
            guard isAuthorIn, !message.isDeleted else { return nil }
            if message.isOpen { close(at, in: place) }
            conversations[place].messages[at].isDeleted = true
            return by(message.author, .messageDeleted(message: message.id))
        case ..<910:
            guard isAuthorIn, !message.isDeleted, !message.isOpen else { return nil }
            return by(message.author, .messageEdited(message: message.id, text: text()))
        case ..<940:
            guard !message.isDeleted else { return nil }
            return by(author, .reactionSet(message: message.id, emoji: random.element(["👍", "❤️", "😂"]), isOn: random.chance(0.7)))
        case ..<955: return by(author, .preferenceSet(key: random.element(["pinned", "muted", "draft"]), value: random.chance(0.3) ? nil : text(2)))
        case ..<970:
            return by(
                author,
                .conversationUpdated(
                    title: random.chance(0.6) ? text() : nil, attributes: [Event.Attribute(name: "topic", value: random.chance(0.3) ? nil : text(2))]))
        case ..<983:
            let user = random.below(Self.users.count)
            guard !conversations[place].people.contains(user) else { return nil }
            conversations[place].people.insert(user)
            return by(author, .participantJoined(Self.users[user]))
        case ..<995:
            guard conversations[place].people.count > 2 else { return nil }
            let user = random.element(conversations[place].people.sorted())
            conversations[place].people.remove(user)
            return by(author, .participantLeft(Self.users[user]))
        default: return by(author, .custom(name: "app.poll", payload: [1, 2, 3]))
        }
    }

    private mutating func close(_ message: Int, in place: Int) {
        conversations[place].messages[message].isOpen = false
        conversations[place].open.removeAll { $0 == message }
    }
}
