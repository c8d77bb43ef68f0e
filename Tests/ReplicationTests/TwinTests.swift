import ConversationStore
import Foundation
import Testing

@testable import Replication

/// What has no id by which a hub knows a repeat, and may stand there under an origin of which whoever sends it knows nothing.
@Suite("What may stand there under another origin") struct TwinTests {
    /// By their kinds: the preference has a log of its own.
    private func changes(of id: MessageID) -> [Event.Content] {
        [
            .conversationUpdated(title: "title", attributes: []), .participantLeft(eve), .messageEdited(message: id, text: "one, edited"),
            .reactionSet(message: id, emoji: "👍", isOn: true), .preferenceSet(key: "draft", value: "so"), .custom(name: "x", payload: [1]),
        ]
    }

    /// What ada wrote of a conversation that is no message, as often as the hub has it, by kinds.
    private func written(_ world: World, _ chat: ConversationID) throws -> [Event] {
        var events: [Event] = []
        try world.hubStore.log.replay { event in
            if event.event.conversation == chat, event.event.author == ada, event.event.content.kind != .messageSent { events.append(event.event) }
            return true
        }
        return events.sorted { $0.kindNumber < $1.kindNumber }
    }

    @Test(
        "A hub that was set back takes an offer; then the device is set back to a copy that had not sent the event",
        arguments: [Scope.mine, .newest(conversations: 1, messages: 1)], [(false, false), (true, false), (false, true), (true, true)])
    func bothSetBack(_ scope: Scope, _ kind: (isGone: Bool, isAhead: Bool)) async throws {
        let isGone = kind.isGone
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada, eve]), id = MessageID.random()
            var device = try await world.heal(world.device(ada), scope: scope)
            try device.append(message("one", in: chat, by: ada, id: id))
            device = try await world.heal(device, scope: scope)
            try world.backUpHub()
            if isGone {
                // Behind the backup: of the cursor of the copy the hub knows nothing then.
                _ = try await world.hubStore.append(message("lost", in: chat, by: bob))
                device = try await world.heal(device, scope: scope)
            }
            // Of a clock that is ahead, which the hub holds back.
            if kind.isAhead { device.state.withLock { $0.clock.last = HLC(milliseconds: UInt64(Date().timeIntervalSince1970 * 1000) + 60_000) } }
            for content in changes(of: id) { try device.append(Event(conversation: chat, author: ada, content: content)) }
            let copy = try world.copy(device)
            // More than a newest part has.
            for number in 0..<3 { try device.append(message("more \(number)", in: chat, by: ada)) }
            device = try await world.heal(device, scope: scope)
            try world.restoreHub()
            device = try await world.heal(device, scope: scope)
            let once = try written(world, chat)
            #expect(once.map(\.content) == changes(of: id))
            try device.close()
            device = try await world.heal(world.open(copy, ada), scope: scope)
            #expect(try written(world, chat) == once)
            #expect(!device.outbox.contains { !$0.isAccepted })
            #expect(try device.lostEvents().isEmpty || isGone)
        }
    }

    @Test("A hub that was set back takes an offer, and is put forward to before: the device names the origin that it had last")
    func putForward() async throws {
        try await withWorld { world in
            let scope = Scope.newest(conversations: 1, messages: 1)
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada, eve]), id = MessageID.random()
            var device = try await world.heal(world.device(ada), scope: scope)
            try world.backUpHub()
            try FileManager.default.moveItem(atPath: world.directory + "/backup", toPath: world.directory + "/old")
            try device.append(message("one", in: chat, by: ada, id: id))
            for content in changes(of: id) { try device.append(Event(conversation: chat, author: ada, content: content)) }
            for number in 0..<3 { try device.append(message("more \(number)", in: chat, by: ada)) }
            device = try await world.heal(device, scope: scope)
            try world.backUpHub()
            let new = world.directory + "/new"
            try FileManager.default.moveItem(atPath: world.directory + "/backup", toPath: new)
            for backup in ["old", "new", "old", "new"] {
                try EventStore.copy(from: world.directory + "/" + backup, to: world.directory + "/backup")
                try world.restoreHub()
                device = try await world.heal(device, scope: scope)
                // What it holds no longer it cannot offer.
                let found = try written(world, chat).map(\.content)
                #expect(backup == "new" ? found == changes(of: id) : found == changes(of: id).filter { found.contains($0) }, "\(backup) \(found)")
            }
        }
    }

    @Test("A hub looks from the position on that it is told")
    func asking() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let edit = Event(conversation: chat, author: ada, content: .custom(name: "x", payload: [1]))
            let peer = try await RawPeer(world.hub, ada)
            // It has seq and position 2.
            let asked: [(position: Position, seq: Seq)] = [(0, 2), (1, 2), (2, 2), (3, 3), (3, 3), (0, 4), (.max, 5)]
            for (counter, (position, seq)) in asked.enumerated() {
                let origin = Origin(replica: peer.replica, counter: UInt64(counter) + 1, hlc: HLC(milliseconds: 5))
                let (envelope, body) = EventCodec.encode(
                    RecordedEvent(log: edit.log, seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: edit, targetSeq: nil))
                peer.forget()
                peer.send(.push([PushedEvent(envelope: envelope, body: body, isFirstSending: true, mayStandFrom: position)]))
                try await eventually { peer.answers > 0 }
                #expect(peer.accepted.first?.seq == seq, "\(counter)")
            }
            peer.end()
        }
    }

    @Test("What was made in a session stands nowhere, what was made before it behind a cursor of that time, until it has left")
    func saying() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let side = try SideStore(directory: world.directory, tables: SyncTables.names)
            defer { side.close() }
            let outbox = try Outbox(side, identity: ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 1, count: 16)))
            func add(_ content: Event.Content) throws {
                _ = try outbox.add([(Event(conversation: chat, author: ada, content: content), HLC(milliseconds: UInt64(outbox.entries.count + 1)))])
            }
            func take() throws -> [Position] { try outbox.take(bytesMax: .max, eventsMax: .max).events.map(\.mayStandFrom) }
            func answer(_ entry: OutboxEntry, _ code: String) throws {
                let name = (entry.event.log, entry.origin.replica, entry.origin.counter)
                _ = try outbox.answered(
                    [], [Refused(log: name.0, replica: name.1, counter: name.2, code: code, detail: "")], newNonce: { _ in [UInt8](repeating: 2, count: 16) },
                    standing: { _ in .awaited })
            }
            let custom = Event.Content.custom(name: "x", payload: [])
            #expect(outbox.caughtUp(at: 7) && !outbox.caughtUp(at: 7))
            for content in [custom, message("text", in: chat, by: ada).content, .participantLeft(ada)] { try add(content) }
            try outbox.beginSession()
            try add(custom)
            #expect(try take() == [8, 0, 8, 0])
            try add(custom)
            #expect(try take() == [0])
            // What waits for its answer is older than the next session, and stays so though the hub has said since that it has sent all.
            #expect(!outbox.caughtUp(at: 9))
            try outbox.beginSession()
            #expect(try take() == [8, 0, 8, 8, 8])
            // Refused and tried again, and under another counter.
            try answer(outbox.entries[4], "malformed")
            _ = try outbox.retry(nil)
            #expect(try take() == [8] && !outbox.caughtUp(at: 10))
            try answer(outbox.entries[0], "origin_conflict")
            try outbox.beginSession()
            #expect(try take().filter { $0 > 0 } == [8, 8, 8, 8])
            for entry in outbox.entries where !entry.event.isKnownByContent { try answer(entry, "malformed") }
            #expect(!outbox.caughtUp(at: 11))
            _ = try outbox.discard(nil)
            #expect(outbox.caughtUp(at: 12))
            try add(custom)
            #expect(outbox.caughtUp(at: 13))
            try outbox.beginSession()
            #expect(try take().last == 14)
        }
    }

    @Test("Behind which cursor they were made is kept with the cursor, and forgotten with it") func keeping() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            func position(_ device: Replica) -> Position { device.state.withLock { $0.outbox.position } }
            var device = try world.device(ada)
            let path = device.store.log.path
            try await world.sync(device)
            #expect(position(device) == 1)
            try device.append(Event(conversation: chat, author: ada, content: .custom(name: "x", payload: [1])))
            try await world.sync(device)
            try device.close()
            device = try world.open(path, ada)
            // It may have left behind the end that it was told of.
            #expect([1, 2].contains(position(device)))
            try await world.sync(device)
            #expect(position(device) == 2)
            try device.save(.conversations([chat]))
            #expect(position(device) == 0)
            try device.close()
            #expect(try position(world.open(path, ada)) == 0)
        }
    }

    @Test("What is still unsent when the cursor has passed it by is found all the same") func passedBy() async throws {
        try await withWorld { world in
            let scope = Scope.newest(conversations: 1, messages: 1)
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada, eve]), id = MessageID.random()
            _ = try await world.hubStore.append(message("one", in: chat, by: ada, id: id))
            try world.backUpHub()
            for number in 0..<5 { _ = try await world.hubStore.append(message("lost \(number)", in: chat, by: bob)) }
            var device = try await world.heal(world.device(ada), scope: scope)
            try device.append(message("mine", in: chat, by: ada))
            device = try await world.heal(device, scope: scope)
            for content in changes(of: id) { try device.append(Event(conversation: chat, author: ada, content: content)) }
            let copy = try world.copy(device)
            try world.restoreHub()
            device = try await world.heal(device, scope: scope)
            let once = try written(world, chat)
            #expect(once.map(\.content) == changes(of: id))
            try device.close()
            for number in 0..<20 { _ = try await world.hubStore.append(message("more \(number)", in: chat, by: bob)) }
            // It catches up, and begins anew to offer what was lost, before it sends the rest.
            device = try await world.heal(world.open(copy, ada), scope: scope)
            #expect(try written(world, chat) == once)
            // What lies out of its sight is asked for again and again, and gets the same answer.
            for _ in 0..<3 {
                let replica = device.state.withLock { $0.outbox.identity.replica }
                device = try await world.heal(device, scope: scope)
                #expect(device.state.withLock { $0.outbox.identity.replica } == replica)
                #expect(try written(world, chat) == once)
            }
        }
    }

    @Test("What comes from the hub and is just what waits here leaves the outbox, whatever its origin; what a hub knows by its id is left to that")
    func coming() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            var device = try world.device(ada)
            try await world.sync(device)
            let events = [Event(conversation: chat, author: ada, content: .custom(name: "x", payload: [1])), message("two", in: chat, by: ada)]
            try device.append(events)
            let copy = try world.copy(device)
            try await world.sync(device)
            try device.close()
            device = try world.open(copy, ada)
            let seqs = try world.hubStore.log.events(in: .conversation(chat)).suffix(2)
            for var event in seqs {
                event.origin.replica = ReplicaID(high: 1, low: 1)
                try device.state.withLock { try device.confirmed([event], &$0) }
                #expect(device.outbox.map(\.event) == [events[1]])
            }
            var other = seqs[seqs.startIndex]
            other.origin.hlc = HLC(milliseconds: 1)
            try device.append(events[0])
            try device.state.withLock { try device.confirmed([other], &$0) }
            #expect(device.outbox.count == 2)
        }
    }

    @Test("A hub that calls something a repeat of such is believed if it is of the same time, author and content; of an erased one the envelope tells")
    func believing() {
        let chat = ConversationID.random(), id = MessageID.random(), time = HLC(milliseconds: 7)
        func entry(_ text: String, by author: UserID = ada) -> OutboxEntry {
            let event = Event(conversation: chat, author: author, content: .messageEdited(message: id, text: text))
            return OutboxEntry(id: 1, event: event, origin: Origin(replica: ReplicaID(high: 1, low: 1), counter: 5, hlc: time), nonce: [])
        }
        let made = entry("text")
        func stands(_ entry: OutboxEntry, at hlc: HLC = time, isErased: Bool = false, isRepeat: Bool = true) -> Bool {
            var recorded = made.recorded
            (recorded.origin, recorded.isErased) = (Origin(replica: ReplicaID(high: 2, low: 2), counter: 3, hlc: hlc), isErased)
            return entry.stands(as: recorded, isRepeat: isRepeat, isService: false)
        }
        #expect(stands(entry("text")) && stands(entry("text"), isErased: true) && stands(entry("other"), isErased: true))
        #expect(!stands(entry("text"), isRepeat: false) && !stands(entry("text"), at: HLC(milliseconds: 8)) && !stands(entry("other")))
        #expect(!stands(entry("text", by: bob)) && !stands(entry("text", by: bob), isErased: true))
    }

    @Test("Nothing that is said again, by another process and with a clock that is behind, has the time of what was said before", arguments: [false, true])
    func times(_ isCopied: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            world.hubStore.log.advanceClock(by: 3_600_000 << 16)
            let id = try await world.hubStore.send("an hour ahead", to: chat, from: bob)
            var device = try world.device(ada)
            try await world.sync(device)
            func react(_ isOn: Bool, with device: Replica) throws {
                try device.append(Event(conversation: chat, author: ada, content: .reactionSet(message: id, emoji: "👍", isOn: isOn)))
            }
            let copy = try world.copy(device)
            for number in 0..<4 {
                let path = isCopied && number == 2 ? copy : device.store.log.path
                // Of a copy only chance keeps the times apart: 1 in 32,768 is the same.
                if number == 2 { try await world.sync(device) }
                try device.close()
                device = try world.open(path, ada)
                try react(number % 2 == 0, with: device)
            }
            device = try await world.heal(device)
            let found = try world.hubStore.log.events(in: .conversation(chat)).filter { $0.event.author == ada }
            #expect(found.count == 4 && Set(found.map(\.origin.hlc)).count == 4)
            #expect(device.outbox.isEmpty)
        }
    }

    @Test("A time far in the future was a wrong clock's: it is not gone on from") func wrongClock() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            var device = try world.device(ada)
            let path = device.store.log.path
            try await world.sync(device)
            func add(at hlc: HLC) throws {
                _ = try device.state.withLock { try $0.outbox.add([(Event(conversation: chat, author: ada, content: .custom(name: "x", payload: [])), hlc)]) }
            }
            let now = device.options.execution.now().wallMilliseconds
            for (lead, isKept) in [(1_800_000, true), (7_200_000, false)] as [(UInt64, Bool)] {
                try add(at: HLC(milliseconds: now + lead))
                // It has left the outbox.
                _ = try device.discard(Set(device.outbox.map(\.id)))
                try device.close()
                device = try world.open(path, ada)
                let next = try device.append(Event(conversation: chat, author: ada, content: .custom(name: "x", payload: []))).origin.hlc
                #expect((next > HLC(milliseconds: now + 1_800_000)) == isKept && next < HLC(milliseconds: now + 3_600_000))
                _ = try device.discard(Set(device.outbox.map(\.id)))
            }
        }
    }

    @Test("HELLO says nothing of where the outbox may stand without the cursor with which that goes")
    func otherScope() async throws {
        try await withWorld { world in
            let device = try world.device(ada)
            let chat = ConversationID.random()
            _ = try await world.hubStore.createConversation(.group, author: bob, participants: [eve])
            try await world.sync(device)
            for content in [Event.Content.conversationCreated(kind: .group, title: "", participants: []), .custom(name: "x", payload: [1])] {
                try device.append(Event(conversation: chat, author: ada, content: content))
            }
            #expect(try device.hello(token: "", scope: .mine).pushed.map(\.mayStandFrom) == [0, 2])
            _ = device.state.withLock { try? $0.outbox.takeBack() }
            #expect(try device.hello(token: "", scope: .conversations([chat])).pushed.map(\.mayStandFrom) == [0, 1])
        }
    }
}
