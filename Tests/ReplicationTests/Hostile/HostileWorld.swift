import ConversationStore

/// A hub's few conversations, for liars to ask for.
enum HostileWorld {
    /// Events of each of the three.
    private static let eventsEach = 50
    static let events = UInt64(3 * eventsEach)

    /// Two conversations of some people, and one of others.
    static func fill(_ store: ConversationStore, mine: [UserID], others: [UserID]) throws -> [ConversationID] {
        var ids: [ConversationID] = []
        for number in 0..<3 as Range<UInt64> {
            let id = ConversationID(high: 0xC0, low: number)
            let people = number < 2 ? mine : others
            var events = [Event(conversation: id, author: people[0], content: .conversationCreated(kind: .group, title: "t", participants: people))]
            for index in 1..<UInt64(eventsEach) {
                let message = Event.Message(id: MessageID(high: number + 10, low: index), role: .user, text: "message \(index)")
                events.append(Event(conversation: id, author: people[Int(index) % 2], content: .messageSent(message)))
            }
            _ = try store.log.appendBlocking(events.map { Submission($0) })
            // One run of theirs, and one of others.
            if number > 0 { try store.log.flush() }
            ids.append(id)
        }
        return ids
    }
}
