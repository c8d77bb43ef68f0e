import ConversationStore
import EventLog
import Foundation
import Testing

@testable import Replication

/// A hub that is set back, and then put forward again: an operator takes the wrong backup, and after that the right one.
@Suite struct PutForwardTests {
    private func kinds(_ world: World, _ chat: ConversationID) throws -> [String] {
        var kinds: [String] = []
        try world.hubStore.log.replay(log: .conversation(chat)) { event in
            kinds.append("\(event.event.kindNumber)")
            return true
        }
        return kinds
    }

    private func events(_ world: World) throws -> [RecordedEvent] {
        var events: [RecordedEvent] = []
        try world.hubStore.log.replay { event in
            events.append(event)
            return true
        }
        return events
    }

    private func put(_ world: World, _ backup: String) throws {
        try EventStore.copy(from: world.directory + "/" + backup, to: world.directory + "/backup")
        try world.restoreHub()
    }

    private func keep(_ world: World, as name: String) throws {
        try world.backUpHub()
        try FileManager.default.moveItem(atPath: world.directory + "/backup", toPath: world.directory + "/" + name)
    }

    @Test(
        "what has no id, an edit or a reaction, is recorded once in each of its lives, however often it changes",
        arguments: [Scope.mine, .newest(conversations: 1, messages: 3)])
    func once(_ scope: Scope) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob]), id = MessageID.random()
            _ = try await world.hubStore.append(message("one", in: chat, by: ada, id: id))
            try keep(world, as: "old")
            var device = try await world.heal(world.device(ada), scope: scope)
            for content in [
                Event.Content.messageEdited(message: id, text: "one, edited"), .reactionSet(message: id, emoji: "👍", isOn: true),
                .conversationUpdated(title: "title", attributes: []),
            ] { try device.append(Event(conversation: chat, author: ada, content: content)) }
            try device.append(message("two", in: chat, by: ada))
            device = try await world.heal(device, scope: scope)
            let all = try kinds(world, chat)
            #expect(all.count == 6)
            try keep(world, as: "new")
            for backup in ["old", "new", "old", "new"] {
                try put(world, backup)
                device = try await world.heal(device, scope: scope)
                #expect(try kinds(world, chat) == all, "\(backup)")
                #expect(device.outbox.isEmpty)
                #expect(try device.lostEvents().isEmpty)
                #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["one, edited", "two"])
            }
        }
    }

    @Test("so is what a device holds no longer when a hub was made anew of what was salvaged: an offer names the origin that it had", arguments: [false, true])
    func outOfSight(_ wasSetBackBefore: Bool) async throws {
        try await withWorld { world in
            let scope = Scope.newest(conversations: 1, messages: 1)
            var device = try await world.heal(world.device(ada), scope: scope)
            try keep(world, as: "old")
            let chat = ConversationID.random(), id = MessageID.random()
            func append(_ content: Event.Content) throws { try device.append(Event(conversation: chat, author: ada, content: content)) }
            try append(.conversationCreated(kind: .group, title: "chat", participants: [bob]))
            try device.append(message("one", in: chat, by: ada, id: id))
            let contents = [
                Event.Content.messageEdited(message: id, text: "one, edited"), .reactionSet(message: id, emoji: "👍", isOn: true),
                .conversationUpdated(title: "title", attributes: []), .custom(name: "x", payload: [1]), .preferenceSet(key: "draft", value: "so"),
            ]
            for content in contents { try append(content) }
            for number in 0..<3 { try device.append(message("more \(number)", in: chat, by: ada)) }
            device = try await world.heal(device, scope: scope)
            if wasSetBackBefore {
                // It is offered there, and stands under the origins of that.
                try put(world, "old")
                device = try await world.heal(device, scope: scope)
            }
            let all = try events(world)
            #expect(all.count { $0.event.conversation == chat } == 10)
            try keep(world, as: "lost")
            // As `import` takes in what `export --salvage` wrote: with the origins, but at a time of its own.
            let made = try EventStore.open(at: world.directory + "/backup")
            let outcomes = try made.appendBlocking(all.map { Submission($0.event, origin: $0.origin) })
            #expect(outcomes.allSatisfy { if case .accepted = $0 { true } else { false } })
            try made.close()
            try world.restoreHub()
            for _ in 0..<2 { device = try await world.heal(device, scope: scope) }
            let found = try events(world)
            #expect(found.map(\.origin) == all.map(\.origin))
            // What lies in the hole does not come.
            #expect(!device.outbox.contains { !$0.isAccepted })
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }

    @Test("what comes so is told as accepted, and an erased body does not come back") func erased() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob]), id = MessageID.random()
            _ = try await world.hubStore.append(message("one", in: chat, by: ada, id: id))
            try keep(world, as: "old")
            var device = try await world.heal(world.device(ada))
            try device.append(Event(conversation: chat, author: ada, content: .messageEdited(message: id, text: "a secret")))
            device = try await world.heal(device)
            try world.hubStore.log.erase(log: .conversation(chat), seq: 3)
            try keep(world, as: "new")
            try put(world, "old")
            device = try await world.heal(device)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["a secret"])
            try put(world, "new")
            var accepted = 0
            for _ in 0..<3 {
                let session = world.follow(device)
                try await eventually { session.isSettled || session.end != nil }
                accepted += session.log.withLock { $0.reduce(0) { if case .answered(let accepted, _) = $1 { $0 + accepted } else { $0 } } }
                let isReopening = if case .mustReopen = session.end { true } else { false }
                session.connection.end()
                try await eventually { session.end != nil }
                guard isReopening else { break }
                let path = device.store.log.path
                try device.close()
                device = try world.open(path, ada)
            }
            #expect(accepted == 1 && device.outbox.isEmpty)
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 3)
        }
    }

    @Test("What was erased may be another device's event of the same time: then one's own fails, and is written anew when it is tried again")
    func erasedAnothers() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try keep(world, as: "old")
            let (phone, laptop) = try (world.device(ada), world.device(ada))
            func preference(_ value: String) -> Event { Event(conversation: chat, author: ada, content: .preferenceSet(key: "colour", value: value)) }
            // Not ahead of the hub's by then: else that would tell the two apart.
            let moment = UInt64(Date().timeIntervalSince1970 * 1000) + 1000
            /// Writes offline at a time, the same for both.
            func write(_ value: String, on device: Replica) async throws -> Replica {
                let device = try await world.heal(device), path = device.store.log.path
                try device.close()
                var options = ReplicaOptions()
                options.execution.now = { Instant(wallMilliseconds: moment, monotonicMilliseconds: 0) }
                let offline = try Replica.open(at: path, user: ada, options: options)
                try offline.append(preference(value))
                try offline.close()
                try await Task.sleep(for: .milliseconds(max(0, Int(moment) + 100 - Int(Date().timeIntervalSince1970 * 1000))))
                return try await world.heal(world.open(path, ada))
            }
            // The hub loses what the phone wrote, then has what the laptop wrote at the same time, and erases its text.
            var own = try await write("blue", on: phone)
            let path = own.store.log.path
            let time = try #require(try own.store.log.event(in: .user(ada), at: 1)).origin.hlc
            try own.close()
            try put(world, "old")
            let other = try await write("red", on: laptop)
            #expect(try other.store.log.event(in: .user(ada), at: 1)?.origin.hlc == time)
            try world.hubStore.log.erase(log: .user(ada), seq: 1)
            own = try await world.heal(world.open(path, ada))
            #expect(own.outbox.map(\.event) == [preference("blue")])
            #expect(own.outbox.map(\.isFailed) == [true])
            #expect(try world.hubStore.log.lastSeq(of: .user(ada)) == 1)
            #expect(try own.retry() == 1)
            own = try await world.heal(own)
            #expect(own.outbox.isEmpty)
            #expect(try world.hubStore.log.event(in: .user(ada), at: 2)?.event == preference("blue"))
        }
    }

    /// Ada's device, and a message of hers that the hub has at seq 3, in reply to one of bob's; the backup "old" has neither.
    private func reply(_ world: World) async throws -> (device: Replica, event: Event) {
        let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
        try keep(world, as: "old")
        let base = MessageID.random()
        _ = try await world.hubStore.append(message("one", in: chat, by: bob, id: base))
        let device = try await world.heal(world.device(ada))
        let event = Event(conversation: chat, author: ada, content: .messageSent(Event.Message(id: .random(), role: .user, text: "two", replyTo: base)))
        try device.append(event)
        return (try await world.heal(device), event)
    }

    enum Erasure: CaseIterable { case beforeTheBackup, afterTheRestore, afterItCameBack }

    @Test("what was edited in between is not taken for what was erased there: it fails, however often it is tried again", arguments: Erasure.allCases)
    func edited(_ erasure: Erasure) async throws {
        try await withWorld { world in
            var (device, first) = try await reply(world)
            let chat = first.conversation
            if erasure == .beforeTheBackup { try world.hubStore.log.erase(log: .conversation(chat), seq: 3) }
            try keep(world, as: "new")
            try put(world, "old")
            // What it replies to is lost: it fails, and is written anew.
            device = try await world.heal(device)
            let entry = try #require(device.outbox.first)
            #expect(entry.isFailed && entry.event == first)
            try device.edit(entry.id, text: "three")
            try put(world, "new")
            // The device has the body then, which the hub cannot compare any more.
            if erasure == .afterItCameBack { device = try await world.heal(device) }
            if erasure != .beforeTheBackup { try world.hubStore.log.erase(log: .conversation(chat), seq: 3) }
            for _ in 0..<2 {
                device = try await world.heal(device)
                #expect(device.outbox.map(\.isFailed) == [true])
                guard case .messageSent(var edited) = first.content else { return }
                edited.text = "three"
                #expect(device.outbox.map(\.event.content) == [.messageSent(edited)])
                try device.retry()
                device = try await world.heal(device)
                #expect(device.outbox.map(\.state) == [OutboxEntry.isOfErased])
            }
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 3)
        }
    }

    @Test("nor where a hub that knew the message for long names another event of its log") func editedElsewhere() async throws {
        try await withWorld { world in
            var (device, first) = try await reply(world)
            let chat = first.conversation
            try keep(world, as: "new")
            try put(world, "old")
            device = try await world.heal(device)
            try device.edit(try #require(device.outbox.first).id, text: "three")
            try put(world, "new")
            device = try await world.heal(device)
            // More than a page of the timeline: the message and its pending form stand in two.
            for index in 0..<40 { _ = try await world.hubStore.append(message("four \(index)", in: chat, by: bob)) }
            try world.hubStore.log.erase(log: .conversation(chat), seq: 3)
            for _ in 0..<2 {
                try device.retry()
                let count = Monitor(0)
                let other = Between(world.hub, device) { frame in
                    guard case .accepted(var answers) = frame else { return frame }
                    for place in answers.indices where answers[place].isDuplicate {
                        answers[place].seq = 43
                        count.withLock { $0 += 1 }
                    }
                    return .accepted(answers)
                }
                try await eventually { other.isSettled || other.hasEnded }
                other.end()
                try await eventually { other.hasEnded }
                #expect(other.failure == nil && count.withLock { $0 } > 0)
                #expect(device.outbox.map(\.state) == [OutboxEntry.isOfErased])
            }
        }
    }

    @Test("what failed in between leaves the outbox: tried again, it would be recorded twice") func failed() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob]), id = MessageID.random()
            try keep(world, as: "old")
            _ = try await world.hubStore.append(message("one", in: chat, by: bob, id: id))
            var device = try await world.heal(world.device(ada))
            try device.append(Event(conversation: chat, author: ada, content: .reactionSet(message: id, emoji: "👍", isOn: true)))
            device = try await world.heal(device)
            let all = try kinds(world, chat)
            try keep(world, as: "new")
            try put(world, "old")
            device = try await world.heal(device)
            #expect(device.outbox.map(\.isFailed) == [true])
            try put(world, "new")
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            try device.retry()
            device = try await world.heal(device)
            #expect(try kinds(world, chat) == all)
        }
    }

    @Test("what failed in between, and was tried again, is looked for as well") func retried() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob]), id = MessageID.random()
            try keep(world, as: "old")
            _ = try await world.hubStore.append(message("one", in: chat, by: bob, id: id))
            var device = try await world.heal(world.device(ada))
            try device.append(Event(conversation: chat, author: ada, content: .reactionSet(message: id, emoji: "👍", isOn: true)))
            try device.append(Event(conversation: chat, author: ada, content: .conversationUpdated(title: "title", attributes: [])))
            device = try await world.heal(device)
            let all = try kinds(world, chat)
            try keep(world, as: "new")
            // The reaction fails there, the title is taken, lost once more, and offered.
            try put(world, "old")
            device = try await world.heal(device)
            #expect(device.outbox.map(\.isFailed) == [true])
            try put(world, "old")
            try await session(world, device)
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, ada)
            #expect(device.outbox.map(\.isFailed).sorted { $1 } == [false, true])
            try device.retry()
            try device.close()
            device = try world.open(path, ada)
            try put(world, "new")
            device = try await world.heal(device)
            #expect(try kinds(world, chat) == all)
            #expect(device.outbox.isEmpty)
        }
    }

    @Test(
        "lives of the hub that a replica meets for one session only, in which it sets itself right: what it offers, under which id it may be, is recorded once",
        arguments: [["old", "new"], ["old", "oldest", "new"], ["oldest", "old", "new"], ["none", "new"]])
    func inPassing(_ backups: [String]) async throws {
        try await withWorld { world in
            try keep(world, as: "none")
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob]), id = MessageID.random()
            try keep(world, as: "oldest")
            _ = try await world.hubStore.append(message("one", in: chat, by: ada, id: id))
            try keep(world, as: "old")
            var device = try await world.heal(world.device(ada))
            for content in [Event.Content.messageEdited(message: id, text: "one, edited"), .reactionSet(message: id, emoji: "👍", isOn: true)] {
                try device.append(Event(conversation: chat, author: ada, content: content))
            }
            device = try await world.heal(device)
            let all = try kinds(world, chat)
            try keep(world, as: "new")
            for backup in backups {
                try put(world, backup)
                let session = world.follow(device)
                try await eventually { session.isSettled || session.end != nil }
                session.connection.end()
                try await eventually { session.end != nil }
                let path = device.store.log.path
                try device.close()
                device = try world.open(path, ada)
                // Another life of the hub may make it offer what it offers already.
                let offered = device.outbox
                try device.state.withLock { try $0.outbox.putFirst(offered.map(\.recorded)) }
                #expect(device.outbox == offered)
            }
            device = try await world.heal(device)
            #expect(try kinds(world, chat) == all)
            #expect(device.outbox.isEmpty)
            #expect(try device.lostEvents().isEmpty)
        }
    }

    @Test("what it offers and finds there again is recorded once, whichever write beside the log a full disk refuses meanwhile")
    func fullDisk() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob]), id = MessageID.random()
            try keep(world, as: "old")
            var device = try await world.heal(world.device(ada))
            try device.append(message("mine", in: chat, by: ada, id: id))
            try device.append(Event(conversation: chat, author: ada, content: .reactionSet(message: id, emoji: "👍", isOn: true)))
            device = try await world.heal(device)
            let all = try kinds(world, chat)
            try keep(world, as: "new")
            try put(world, "old")
            // It learns of the loss, and offers nothing yet.
            try await session(world, device)
            let path = device.store.log.path
            try device.close()
            try world.open(path, ada).close()
            try put(world, "new")
            var refused = 0
            while true {
                let copy = "\(world.directory)/refused-\(refused)"
                try FileManager.default.copyItem(atPath: path, toPath: copy)
                let disk = RefusedCommit(refused, under: copy)
                defer { FaultyDisks.remove(disk) }
                device = try world.open(copy, ada)
                #expect(device.outbox.count == 2)
                disk.isOn.withLock { $0 = true }
                try await session(world, device)
                disk.isOn.withLock { $0 = false }
                try device.close()
                device = try await world.heal(world.open(copy, ada))
                #expect(try kinds(world, chat) == all, "refused: \(refused)")
                #expect(device.outbox.isEmpty, "refused: \(refused)")
                try device.close()
                guard disk.hasRefused.withLock({ $0 }) else { break }
                refused += 1
            }
            #expect(refused > 2)
        }
    }

    private func session(_ world: World, _ device: Replica) async throws {
        let session = world.follow(device)
        try await eventually { session.isSettled || session.end != nil }
        session.connection.end()
        try await eventually { session.end != nil }
    }

    /// One commit of what lies beside a device's log fails, of those that come while it is on.
    private final class RefusedCommit: DiskFaults {
        private let left: Monitor<Int>
        let isOn = Monitor(false), hasRefused = Monitor(false)

        init(_ number: Int, under directory: String) {
            left = Monitor(number)
            FaultyDisks.add(self, for: directory)
        }

        func willCommit(_ path: String) throws(SystemError) {
            guard path.hasSuffix("/sync"), isOn.withLock({ $0 }) else { return }
            let isIt = left.withLock { left in
                left -= 1
                return left == -1
            }
            guard isIt else { return }
            hasRefused.withLock { $0 = true }
            throw SystemError(call: "commit", path: path, number: ENOSPC)
        }
    }

    @Test("a device that was set back to a copy of itself offers what stands at the hub under an id that it took since, when the hub loses that too")
    func setBackDevice() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob]), id = MessageID.random()
            try keep(world, as: "old")
            var device = try await world.heal(world.device(ada))
            try device.append(message("mine", in: chat, by: ada, id: id))
            try device.append(Event(conversation: chat, author: ada, content: .messageEdited(message: id, text: "mine, edited")))
            device = try await world.heal(device)
            let copy = try world.copy(device)
            try put(world, "old")
            // It offers both, under a new id.
            device = try await world.heal(device)
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 3)
            try device.close()
            device = try await world.heal(world.open(copy, ada))
            #expect(device.outbox.isEmpty)
            for _ in 0..<2 {
                try put(world, "old")
                device = try await world.heal(device)
                #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["mine, edited"])
                #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 3)
                #expect(try device.outbox.isEmpty && device.lostEvents().isEmpty)
            }
        }
    }

    @Test(
        "what has no id is recorded once, though a device that was set back gives it another counter than the one that its lost life sent it under",
        arguments: [
            Scope.mine, .newest(conversations: 1, messages: 3),
        ])
    func otherCounter(_ scope: Scope) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob]), id = MessageID.random()
            _ = try await world.hubStore.append(message("one", in: chat, by: ada, id: id))
            var device = try await world.heal(world.device(ada), scope: scope)
            let withdrawn = try device.append(message("withdrawn later", in: chat, by: ada))
            var contents = [Event.Content.messageEdited(message: id, text: "one, edited"), .custom(name: "x", payload: [1])]
            for content in contents { try device.append(Event(conversation: chat, author: ada, content: content)) }
            // What waits for an answer before it goes, and what is of another log.
            let later = MessageID.random()
            try device.append(message("two", in: chat, by: ada, id: later))
            contents += [.messageEdited(message: later, text: "two, edited"), .preferenceSet(key: "draft", value: "so")]
            for content in contents.suffix(2) { try device.append(Event(conversation: chat, author: ada, content: content)) }
            let copy = try world.copy(device)
            try device.discard([withdrawn.id])
            device = try await world.heal(device, scope: scope)
            try device.close()
            device = try await world.heal(world.open(copy, ada), scope: scope)
            #expect(device.outbox.isEmpty)
            for content in contents {
                let count = try events(world).count { $0.event.content == content }
                #expect(count == 1, "\(content)")
            }
            let isThere = try events(world).contains { $0.event == withdrawn.event }
            #expect(isThere)
        }
    }
}
