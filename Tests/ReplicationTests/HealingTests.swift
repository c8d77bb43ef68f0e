import ConversationStore
import Foundation
@testable import Replication
import Testing

/// Hubs that were restored, replaced or that lie; devices that were restored.
@Suite struct HealingTests {
    @Test func aHubRestoredFromABackupGetsBackWhatIsTheUsersOwn() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<30 { try await world.hubStore.send("before \(index)", to: chat, from: bob) }
            let first = try world.device(ada), second = try world.device(bob)
            for device in [first, second] { try await world.sync(device) }
            try world.backUpHub()
            for index in 0..<5 {
                try first.append(message("ada, lost \(index)", in: chat, by: ada))
                try second.append(message("bob, lost \(index)", in: chat, by: bob))
            }
            for device in [first, second, first] { try await world.sync(device) }
            #expect(try world.hubStore.log.head(of: .conversation(chat))?.size == 41)
            try world.restoreHub()
            #expect(try world.hubStore.log.head(of: .conversation(chat))?.size == 31)
            try await world.hubStore.send("something else", to: chat, from: bob)

            let one = try await world.heal(first)
            // What was bob's is kept aside at ada's, and comes again from bob.
            #expect(try one.lostEvents().count == 5)
            let two = try await world.heal(second)
            try await world.sync(one)
            #expect(try one.lostEvents().isEmpty)
            let texts = try world.hubStore.timeline(of: chat, .newest, limit: 100)!.messages.map(\.text)
            #expect(texts.count == 41 && Set(texts).count == 41)
            for device in [one, two] {
                #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
                #expect(try device.store.timeline(of: chat, .newest, limit: 100) == world.hubStore.timeline(of: chat, .newest, limit: 100))
                #expect(device.outbox.isEmpty)
            }
        }
    }

    @Test("what was done offline to a message that the hub lost comes behind it, in the order made", arguments: [false, true])
    func whatRestsOnALostMessage(_ wasSentBefore: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for text in ["one", "two"] { try await world.hubStore.send(text, to: chat, from: bob) }
            let device = try world.device(ada)
            try await world.sync(device)
            try world.backUpHub()
            let three = MessageID.random()
            try device.append(message("three", in: chat, by: ada, id: three))
            try await world.sync(device)
            try world.restoreHub()
            var reply = Event.Message(id: .random(), role: .user, text: "four")
            reply.replyTo = three
            try device.append([
                Event(conversation: chat, author: ada, content: .messageEdited(message: three, text: "three, edited")),
                Event(conversation: chat, author: ada, content: .reactionSet(message: three, emoji: "👍", isOn: true)),
                Event(conversation: chat, author: ada, content: .messageSent(reply)), message("five", in: chat, by: ada),
            ])
            // Of an earlier connection that broke before any hub heard of it.
            if wasSentBefore { _ = try device.hello(token: "", scope: .mine) }

            let healed = try await world.heal(device)
            #expect(healed.outbox.isEmpty)
            let messages = try world.hubStore.timeline(of: chat, .newest, limit: 10)!.messages
            #expect(messages.map(\.text) == ["one", "two", "three, edited", "four", "five"])
            #expect(messages[2].reactions.map(\.emoji) == ["👍"] && messages[3].replyTo == three)
            #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }

    @Test func aDeviceRestoredFromABackupLosesAndDoublesNothing() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            try await world.sync(device)
            let id = MessageID.random()
            try device.append(message("in the backup", in: chat, by: ada, id: id))
            let copy = try world.copy(device)
            try device.append(message("after the backup", in: chat, by: ada))
            try device.append(Event(conversation: chat, author: ada, content: .custom(name: "note", payload: [1])))
            try await world.sync(device)
            try device.close()

            let restored = try world.open(copy, ada)
            try restored.append(message("after the restoring", in: chat, by: ada))
            try restored.append(Event(conversation: chat, author: ada, content: .custom(name: "note", payload: [2])))
            let healed = try await world.heal(restored)
            let texts = try world.hubStore.timeline(of: chat, .newest, limit: 100)!.messages.map(\.text)
            #expect(texts.sorted() == ["after the backup", "after the restoring", "in the backup"])
            let notes = try world.hubStore.log.events(in: .conversation(chat)).filter { if case .custom = $0.event.content { true } else { false } }
            #expect(notes.count == 2)
            #expect(healed.outbox.isEmpty)
        }
    }

    @Test func aHubThatRewritesIsRefusedWithEvidence() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try await world.hubStore.send("as it was", to: chat, from: bob)
            let device = try world.device(ada)
            try await world.sync(device)
            try await world.hubStore.send("one more", to: chat, from: bob)
            // Another history in the place of the first, with cursors that the hub still vouches for.
            try world.rewriteHub { event in
                var event = event
                if case .messageSent(var message) = event.event.content, message.text == "as it was" {
                    message.text = "as it was not"
                    event.event.content = .messageSent(message)
                }
                return event
            }
            let session = world.follow(device)
            try await eventually { session.end != nil }
            guard case .failed(let error as ReplicaError) = session.end else {
                Issue.record("it went on: \(String(describing: session.end))")
                return
            }
            #expect(error.code == .forked)
            #expect(try device.evidence?.contains(chat.description) ?? false)
            #expect(try device.store.timeline(of: chat)?.messages.map(\.text) == ["as it was"])
        }
    }

    @Test func whoLeavesGetsNothingAfterAndWhoComesBackGetsWhatIsMissing() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try await world.hubStore.send("one", to: chat, from: ada)
            let device = try world.device(bob)
            let live = world.follow(device)
            try await eventually { live.isSettled }
            try await world.hubStore.append(Event(conversation: chat, author: ada, content: .participantLeft(bob)))
            try await world.hubStore.send("not for bob, for now", to: chat, from: ada)
            let other = try await world.hubStore.createConversation(.direct, author: ada, participants: [bob])
            try await eventually { try device.store.log.head(of: .conversation(other)) != nil }
            #expect(try device.store.log.head(of: .conversation(chat))?.size == 3)
            live.connection.end()
            try await eventually { live.end != nil }
            try await world.hubStore.append(Event(conversation: chat, author: ada, content: .participantJoined(bob)))
            try await world.hubStore.send("welcome back", to: chat, from: ada)
            try await world.sync(device)
            #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
            #expect(try device.store.timeline(of: chat)?.messages.map(\.text) == ["one", "not for bob, for now", "welcome back"])
        }
    }

    @Test func theNewestPartComesOverABase() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, title: "Long", author: ada, participants: [bob])
            for index in 0..<200 { try await world.hubStore.send("message \(index)", to: chat, from: index % 3 == 0 ? ada : bob) }
            let device = try world.device(bob)
            let session = world.follow(device, scope: .newest(conversations: 5, messages: 10))
            try await eventually { session.isSettled }
            #expect(device.holes.map(\.seqs) == [1...191])
            let page = try device.store.timeline(of: chat, .newest, limit: 10)
            #expect(try page?.messages.map(\.text) == world.hubStore.timeline(of: chat, .newest, limit: 10)?.messages.map(\.text))
            #expect(try device.store.lobby(of: bob).rows.map(\.unread) == world.hubStore.lobby(of: bob).rows.map(\.unread))
            // Live events extend it.
            try await world.hubStore.send("live", to: chat, from: ada)
            try await eventually { try device.store.timeline(of: chat, .newest, limit: 1)?.messages.last?.text == "live" }
            session.connection.fill(.conversation(chat))
            // The hole is gone a moment before what stands behind it has entered the log.
            let head = try world.hubStore.log.head(of: .conversation(chat))
            try await eventually { try device.holes.isEmpty && device.store.log.head(of: .conversation(chat)) == head }
            #expect(try device.store.timeline(of: chat, .newest, limit: 300) == world.hubStore.timeline(of: chat, .newest, limit: 300))
            #expect(try device.store.isFold())
            session.connection.end()
        }
    }
}
