import ConversationStore
import Foundation
@testable import Replication
import StoreTesting
import Testing

/// What is written later wins over what its device showed by then, whatever its clock says.
@Suite struct ClockTests {
    /// A replica whose wall clock stands at a moment.
    private func open(_ path: String, at milliseconds: UInt64) throws -> Replica {
        var options = ReplicaOptions()
        options.execution.now = { Instant(wallMilliseconds: milliseconds, monotonicMilliseconds: 0) }
        return try Replica.open(at: path, user: ada, options: options)
    }

    private static let longAgo: UInt64 = 1_000_000_000_000, farAhead: UInt64 = 4_000_000_000_000

    private func sync(_ device: Replica, _ scope: Scope, _ world: World) async throws {
        let session = world.follow(device, scope: scope)
        try await eventually { session.isSettled || session.end != nil }
        if let end = session.end { Issue.record("the session ended: \(end)") }
        session.connection.end()
        try await eventually { session.end != nil }
    }

    @Test("a clock that is behind writes over what is shown of a conversation that is not held whole", arguments: [0, 1, 2], [false, true])
    func behindPart(_ kind: Int, _ isReopened: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: kind == 1 ? [] : [ada])
            let id = MessageID.random()
            _ = try await world.hubStore.append(message("before", in: chat, by: bob))
            if kind == 1 {
                let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
                _ = try await world.hubStore.append(
                    Event(conversation: chat, author: bob, content: .conversationUpdated(title: nil, attributes: [attribute])))
                _ = try await world.hubStore.append(Event(conversation: chat, author: bob, content: .participantJoined(ada)))
            }
            for event in [
                message("first", in: chat, by: ada, id: id),
                Event(conversation: chat, author: ada, content: .messageEdited(message: id, text: "seen")),
                Event(conversation: chat, author: ada, content: .reactionSet(message: id, emoji: "👍", isOn: true)),
                Event(conversation: chat, author: bob, content: .conversationUpdated(title: "seen", attributes: [])),
            ] { _ = try await world.hubStore.append(event) }
            // All of it, what is for who came later, one message, or what tells of none.
            let scope = [Scope.newest(conversations: 1, messages: 1), .mine, .newest(conversations: 1, messages: 0)][kind]
            let path = world.directory + "/behind"
            var device = try open(path, at: Self.longAgo)
            try await sync(device, scope, world)
            #expect(device.parts.map(\.log) == [.conversation(chat)])
            if isReopened {
                try device.close()
                device = try open(path, at: Self.longAgo)
            }
            let isShown = kind < 2
            if isShown { #expect(try device.store.timeline(of: chat)?.messages.last?.text == "seen") }
            try device.append(Event(conversation: chat, author: ada, content: .conversationUpdated(title: "later", attributes: [])))
            if isShown {
                try device.append([
                    Event(conversation: chat, author: ada, content: .messageEdited(message: id, text: "later")),
                    Event(conversation: chat, author: ada, content: .reactionSet(message: id, emoji: "👍", isOn: false)),
                ])
                #expect(try device.store.timeline(of: chat)?.messages.last?.text == "later")
            }
            try await sync(device, scope, world)
            #expect(device.outbox.isEmpty)
            for store in [world.hubStore, device.store] {
                #expect(try store.lobbyRow(of: chat, for: ada)?.title == "later")
                guard isShown else { continue }
                #expect(try store.timeline(of: chat)?.messages.last?.text == "later")
                #expect(try store.timeline(of: chat)?.messages.last?.reactions.isEmpty == true)
            }
            try device.close()
        }
    }

    @Test(
        "what is said when the clock was set right has the true time, though the replica stayed open, and what is written over what was written before comes after it"
    )
    func setRight() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let quiet = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let now = UInt64(Date().timeIntervalSince1970 * 1000), wall = Monitor(Self.farAhead)
            var options = ReplicaOptions()
            options.execution.now = { Instant(wallMilliseconds: wall.withLock { $0 }, monotonicMilliseconds: 0) }
            let device = try Replica.open(at: world.directory + "/set", user: ada, options: options)
            try await world.sync(device)
            func title(_ title: String) -> Event { Event(conversation: chat, author: ada, content: .conversationUpdated(title: title, attributes: [])) }
            let first = try device.append([message("ahead", in: chat, by: ada), title("ahead"), message("ahead", in: quiet, by: ada)])
            #expect(first.allSatisfy { $0.origin.hlc >= HLC(milliseconds: Self.farAhead) })
            wall.withLock { $0 = now }
            // Where only what is no such write was made then, a title has the true time, too.
            let apart = Event(conversation: quiet, author: ada, content: .conversationUpdated(title: "true", attributes: []))
            #expect(try device.append(apart).origin.hlc < HLC(milliseconds: now + 3_600_000))
            let made = try device.append([message("right", in: chat, by: ada), title("later"), title("last"), message("right", in: chat, by: ada)])
            let times = made.map(\.origin.hlc)
            #expect(times[0] < HLC(milliseconds: now + 3_600_000) && times[0] < times[3] && times[3] < HLC(milliseconds: now + 3_600_000))
            #expect(first[1].origin.hlc < times[1] && times[1] < times[2])
            #expect(try device.store.lobbyRow(of: chat, for: ada)?.title == "last")
            try await world.sync(device)
            for store in [world.hubStore, device.store] { #expect(try store.lobbyRow(of: chat, for: ada)?.title == "last") }
            try device.close()
        }
    }

    @Test("what failed with a time far ahead, or is accepted where the scope leaves it out, is written over too", arguments: [0, 1, 2])
    func behindOther(_ kind: Int) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let other = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let path = world.directory + "/ahead", now = UInt64(Date().timeIntervalSince1970 * 1000)
            func title(_ title: String) -> Event { Event(conversation: chat, author: ada, content: .conversationUpdated(title: title, attributes: [])) }
            var device = try open(path, at: now)
            try await sync(device, .mine, world)
            try device.close()
            device = try open(path, at: Self.farAhead)
            let entry = try device.append(title("ahead"))
            if kind != 1 {
                try device.state.withLock { state in
                    var failed = state.outbox.table[entry.id]!
                    failed.state = .failed(code: RefusalCode.forbidden.rawValue, detail: "")
                    try device.side.write { try $0.put(SyncTables.outbox, Outbox.key(failed.id), failed.encoded()) }
                }
            } else {
                try await sync(device, .conversations([other]), world)
                #expect(device.outbox.map(\.isAccepted) == [true])
            }
            try device.close()
            device = try open(path, at: now)
            if kind == 0 { #expect(try device.retry() == 1) }
            try device.append(title("later"))
            // Tried again behind it.
            if kind == 2 { #expect(try device.retry() == 1) }
            #expect(try device.store.lobbyRow(of: chat, for: ada)?.title == "later")
            try await sync(device, .mine, world)
            for store in [world.hubStore, device.store] { #expect(try store.lobbyRow(of: chat, for: ada)?.title == "later") }
            try device.close()
        }
    }

    @Test("what waits with a time far ahead is written over by what its device makes later, when its clock was set right or is behind", arguments: [0, 1])
    func behindPending(_ kind: Int) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada]), id = MessageID.random()
            _ = try await world.hubStore.append(message("first", in: chat, by: ada, id: id))
            let path = world.directory + "/ahead", now = UInt64(Date().timeIntervalSince1970 * 1000)
            var device = try open(path, at: now)
            try await world.sync(device)
            try device.close()
            device = try open(path, at: Self.farAhead)
            try device.append([
                Event(conversation: chat, author: ada, content: .messageEdited(message: id, text: "ahead")),
                Event(conversation: chat, author: ada, content: .reactionSet(message: id, emoji: "👍", isOn: true)),
            ])
            try device.close()
            device = try open(path, at: [now, Self.longAgo][kind])
            // What is said in it, and elsewhere, has the true time, or what comes nearest.
            #expect(try device.append(message("said", in: chat, by: ada)).origin.hlc < HLC(milliseconds: now + 3_600_000))
            try device.append([
                Event(conversation: chat, author: ada, content: .messageEdited(message: id, text: "later")),
                Event(conversation: chat, author: ada, content: .reactionSet(message: id, emoji: "👍", isOn: false)),
            ])
            func check(_ store: ConversationStore) throws {
                let message = try store.message(in: chat, id: id)
                #expect(message?.text == "later" && message?.reactions.isEmpty == true)
            }
            try check(device.store)
            try await world.sync(device)
            try check(world.hubStore)
            try device.close()
            // What was accepted is the hub's: the clock is that of the wall again.
            device = try open(path, at: now)
            #expect(try device.append(message("next", in: chat, by: ada)).origin.hlc < HLC(milliseconds: now + 3_600_000))
            try device.close()
        }
    }
}

extension ClockTests {
    @Test("what was written over wins no more when a hub was set back, whatever clock it was made with, and though it is offered anew", arguments: [0, 1, 2])
    func hubSetBack(_ kind: Int) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada]), id = MessageID.random()
            _ = try await world.hubStore.append(message("first", in: chat, by: ada, id: id))
            let now = UInt64(Date().timeIntervalSince1970 * 1000), wall = Monitor(now)
            var options = ReplicaOptions()
            options.execution.now = { Instant(wallMilliseconds: wall.withLock { $0 }, monotonicMilliseconds: 0) }
            func write(_ text: String) -> [Event] {
                [
                    Event(conversation: chat, author: ada, content: .messageEdited(message: id, text: text)),
                    Event(conversation: chat, author: ada, content: .reactionSet(message: id, emoji: "👍", isOn: text == "ahead")),
                    Event(conversation: chat, author: ada, content: .conversationUpdated(title: text, attributes: [])),
                ]
            }
            func check(_ store: ConversationStore, _ text: String) throws {
                let message = try store.message(in: chat, id: id)
                #expect(message?.text == text && message?.reactions.isEmpty == (text != "ahead"))
                #expect(try store.lobbyRow(of: chat, for: ada)?.title == text)
            }
            var device = try Replica.open(at: world.directory + "/ada", user: ada, options: options)
            var other = try Replica.open(at: world.directory + "/other", user: ada, options: ReplicaOptions())
            try await world.sync(device)
            try world.backUpHub()
            // Of an hour or two nothing tells that it is wrong.
            wall.withLock { $0 = now + [600_000, 600_000, 40_000_000_000][kind] }
            try device.append(write("ahead"))
            try await world.sync(device)
            try await world.sync(other)
            try check(other.store, "ahead")
            if kind == 0 {
                try other.append(write("later"))
                try await world.sync(other)
                try await world.sync(device)
            } else {
                wall.withLock { $0 = now }
                try device.append(write("later"))
                if kind == 2 { try await world.sync(device) }
            }
            try check(device.store, "later")
            try world.restoreHub()
            device = try await world.heal(device)
            other = try await world.heal(other)
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty && other.outbox.isEmpty)
            for store in [world.hubStore, device.store, other.store] { try check(store, "later") }
            for device in [device, other] { try device.close() }
        }
    }
}
