import ConversationStore
import EventLog
import Foundation

/// Fills the store of a hub before it is served.
enum HubStore {
    static let ada = UserID("ada")!, dan = UserID("dan")!, assistant = UserID("assistant")!

    /// Conversations of one user with an assistant: real texts, and a receipt after each fifth exchange, all conversations going on side by side.
    ///
    /// - Parameter others: every other one is another user's.
    static func fill(_ path: String, conversations: Int, events: Int, others: Bool = false, _ dialogues: Dialogues) throws -> [ConversationID] {
        var dialogues = dialogues
        let store = try ConversationStore.open(at: path)
        let each = events / conversations
        var ids: [ConversationID] = []
        var talks: [[Event]] = []
        for index in 0..<conversations {
            let id = ConversationID(high: 0xADA_0000_0000_4000, low: 0x8000_0000_0000_0000 | UInt64(index))
            let talk = dialogues.take(each - 1)
            let user = others && index % 2 == 1 ? dan : ada
            let created = Event.Content.conversationCreated(kind: .assistant, title: talk.title, participants: [user, assistant])
            var events = [Event(conversation: id, author: user, content: created)]
            var last = MessageID.random()
            for (turn, text) in talk.texts.enumerated() {
                if turn % 11 == 10 {
                    events.append(Event(conversation: id, author: user, content: .receiptRead(upTo: last)))
                } else {
                    last = .random()
                    let isMine = turn % 2 == 0
                    events.append(
                        Event(
                            conversation: id, author: isMine ? user : assistant,
                            content: .messageSent(Event.Message(id: last, role: isMine ? .user : .assistant, text: text))))
                }
            }
            ids.append(id)
            talks.append(events)
        }
        try append(round(talks, 6), to: store)
        try store.close()
        return ids
    }

    /// Groups of users who have talked a little.
    static func fill(_ path: String, groups: [[UserID]], messages: Int, _ dialogues: Dialogues) throws -> [ConversationID] {
        var dialogues = dialogues
        let store = try ConversationStore.open(at: path)
        var ids: [ConversationID] = []
        var talks: [[Event]] = []
        for (index, people) in groups.enumerated() {
            let id = ConversationID(high: 0xF1EE_7000_0000_4000, low: 0x8000_0000_0000_0000 | UInt64(index))
            let talk = dialogues.take(messages)
            var events = [Event(conversation: id, author: people[0], content: .conversationCreated(kind: .group, title: talk.title, participants: people))]
            for (turn, text) in talk.texts.enumerated() {
                let message = Event.Message(id: .random(), role: .user, text: text)
                events.append(Event(conversation: id, author: people[turn % people.count], content: .messageSent(message)))
            }
            ids.append(id)
            talks.append(events)
        }
        try append(round(talks, 6), to: store)
        try store.close()
        return ids
    }

    /// A few of each in turn.
    private static func round(_ talks: [[Event]], _ count: Int) -> [Event] {
        var mixed: [Event] = []
        for start in stride(from: 0, to: talks.map(\.count).max() ?? 0, by: count) {
            for talk in talks where start < talk.count { mixed += talk[start..<min(start + count, talk.count)] }
        }
        return mixed
    }

    private static func append(_ events: [Event], to store: ConversationStore) throws {
        for start in stride(from: 0, to: events.count, by: 4096) {
            for outcome in try store.log.appendBlocking(events[start..<min(start + 4096, events.count)].map { Submission($0) }) {
                guard case .accepted = outcome else { throw DeviceError("the hub's store refused an event: \(outcome)") }
            }
        }
    }
}
