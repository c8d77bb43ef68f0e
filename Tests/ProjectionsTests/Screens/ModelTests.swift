import ConversationStore
import Interchange
import StoreTesting
import Testing

@Suite("The simulator's model") struct ModelTests {
    @Test("It shows what fold.py shows, and what the store does", arguments: ScreensTests.files)
    func screens(_ file: String) throws {
        let screens = try ScreensTests.screens(file)
        let scratch = try Scratch()
        let store = try scratch.open()
        for submission in try Feed(file).submissions { _ = try store.log.appendBlocking([submission]) }
        let model = Model(try store.events())
        for (id, expected) in screens.timelines {
            let rows = try #require(model.timeline(id))
            #expect(difference(rows.map { Screens.TimelineRow($0, id) }, expected) == nil)
            let page = try #require(try store.timeline(of: id, limit: .max))
            #expect(difference(page.messages.map { Model.TimelineRow($0, page.receipts) }, rows) == nil)
        }
        for (user, expected) in screens.lobbies {
            let rows = model.lobby(user)
            #expect(difference(rows.map { Screens.LobbyRow($0) }, expected) == nil)
            #expect(difference(try store.lobby(of: user, limit: .max).rows.map { Model.LobbyRow($0) }, rows) == nil)
        }
        #expect(model.conversationIDs.count == screens.timelines.count)
        try store.close()
    }
}

extension Screens.TimelineRow {
    init(_ row: Model.TimelineRow, _ id: ConversationID) {
        self.init(
            conversationId: Text(id.description), messageId: Text(row.id.description), seq: row.seq, author: Text(row.author.string), role: Text(row.role),
            text: Text("\(row.text)"), state: Text(row.state), edited: row.isEdited, chunks: row.chunks, replyTo: row.replyTo.map { Text($0.description) },
            sentAt: Text(Timestamp.string(row.sentAt)), finishReason: row.finishReason.map { Text("\($0)") },
            interruptedReason: row.interruptedReason.map { Text("\($0)") },
            reactions: Dictionary(uniqueKeysWithValues: row.reactions.map { ("\($0)", $1.map { Text($0.string) }) }),
            deliveredTo: row.deliveredTo.map { Text($0.string) }, readBy: row.readBy.map { Text($0.string) })
    }
}

extension Screens.LobbyRow {
    init(_ row: Model.LobbyRow) {
        let last = row.lastMessage.map {
            Screens.LastMessage(
                messageId: Text($0.description), seq: row.lastSeq, author: Text(row.lastAuthor!.string), role: Text(row.lastRole!),
                state: Text(row.lastState!), sentAt: Text(Timestamp.string(row.lastSentAt!)), snippet: Text("\(row.snippet!)"))
        }
        self.init(
            conversationId: Text(row.conversation.description), kind: Text(row.kind), title: row.title.map { Text("\($0)") },
            participants: row.participants.map { Text($0.string) }, lastMessage: last, unread: row.unread,
            preferences: Dictionary(uniqueKeysWithValues: row.preferences.map { ("\($0)", Text("\($1)")) }))
    }
}
