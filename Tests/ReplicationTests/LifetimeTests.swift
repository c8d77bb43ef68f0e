import ConversationStore
import Testing

@testable import Replication

/// What was closed and let go gives its memory back: an app opens and closes stores all day. The address sanitizer cannot say so of a program that ends.
@Suite("Closed and let go") struct LifetimeTests {
    @Test("A replica that synced, streamed and was watched, its store and its log") func replica() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try await world.hubStore.send("hello", to: chat, from: bob)
            weak var replica: Replica?
            weak var store: ConversationStore?
            weak var log: EventStore?
            do {
                let device = try Replica.open(at: world.directory + "/gone", user: ada)
                replica = device
                store = device.store
                log = device.store.log
                try await world.sync(device)
                try device.append(message("mine", in: chat, by: ada))
                try await world.sync(device)
                let watcher = Task { [store = device.store] in
                    for try await _ in store.lobbyUpdates(of: ada) {}
                }
                for try await update in device.store.timelineUpdates(of: chat) {
                    #expect(update.page.messages.count == 2)
                    break
                }
                watcher.cancel()
                _ = await watcher.result
                try device.close()
            }
            try await eventually { replica == nil && store == nil && log == nil }
        }
    }

    @Test("Segments that a session had not taken when it broke off") func segments() async throws {
        try await withWorld { world in
            let frame = Frame.segment(SegmentFrame(run: [UInt8](repeating: 1, count: Replica.wholeBytesMin), logs: []))
            weak var preparations: Preparations?
            do {
                let ofSession = Preparations(world.hubStore.log, .tasks)
                preparations = ofSession
                for _ in 0..<10 { ofSession.note(frame.encoded()) }
                #expect(ofSession.isNextHere)
            }
            try await eventually { preparations == nil }
        }
    }

    @Test("A store that streamed, rebuilt and flushed") func store() async throws {
        try await withWorld { world in
            weak var store: ConversationStore?
            weak var log: EventStore?
            do {
                let opened = try ConversationStore.open(at: world.directory + "/gone")
                store = opened
                log = opened.log
                let chat = try await opened.createConversation(.assistant, author: ada, participants: [bob])
                let answer = try await opened.startMessage(in: chat, from: bob)
                for word in ["one", "two", "three"] { try await answer.append(word) }
                try await answer.complete()
                try opened.log.flush()
                try opened.rebuild()
                try opened.close()
            }
            try await eventually { store == nil && log == nil }
        }
    }
}
