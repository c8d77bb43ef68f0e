import ConversationStore
import Foundation
import Testing

@testable import Replication

/// What a hub looks for in its logs before what is pushed is decided.
@Suite("What a hub looks up for a PUSH") struct LookupTests {
    /// What a peer pushes as made before its session.
    private func pushed(_ content: Event.Content, in chat: ConversationID, at time: UInt64, _ replica: ReplicaID, _ counter: UInt64) -> PushedEvent {
        let event = Event(conversation: chat, author: ada, content: content)
        let origin = Origin(replica: replica, counter: counter, hlc: HLC(milliseconds: time))
        let (envelope, body) = EventCodec.encode(
            RecordedEvent(log: event.log, seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: event, targetSeq: nil))
        return PushedEvent(envelope: envelope, body: body, isFirstSending: true, mayStandFrom: 1)
    }

    private func custom(_ number: UInt8) -> Event.Content { .custom(name: "x", payload: [number]) }

    @Test("What is found long before a log's end is answered, alone and beside what is not found", arguments: [1, 2, 50])
    func longAgo(_ logs: Int) async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for _ in 0..<logs { chats.append(try await world.hubStore.createConversation(.group, author: bob, participants: [ada])) }
            let peer = try await RawPeer(world.hub, ada)
            peer.send(.push(chats.map { pushed(custom(1), in: $0, at: 1, peer.replica, 1) }))
            try await eventually { peer.answers == logs }
            for chat in chats where logs < 50 || chat == chats.max(by: { LogID.conversation($0) < .conversation($1) }) {
                for number in 0..<300 { _ = try await world.hubStore.append(message("more \(number)", in: chat, by: bob)) }
            }
            for isAlone in [true, false] {
                peer.forget()
                let counter: UInt64 = isAlone ? 2 : 4
                let again = chats.map { pushed(custom(1), in: $0, at: 1, peer.replica, counter) }
                let others = isAlone ? [] : chats.map { pushed(custom(2), in: $0, at: 2, peer.replica, counter + 1) }
                peer.send(.push(again + others))
                try await eventually { peer.answers == again.count + others.count }
                #expect(peer.accepted.map(\.isDuplicate) == again.map { _ in true } + others.map { _ in false })
                #expect(peer.accepted.prefix(logs).allSatisfy { $0.seq == 2 })
            }
            peer.end()
        }
    }

    @Test("In long logs that is done in turns with other peers, and so is looking for what is repeated", arguments: [0, WorkAllowance.eventsMax])
    func longLogs(_ spent: Int) async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for _ in 0..<2 { chats.append(try await world.hubStore.createConversation(.group, author: bob, participants: [ada])) }
            let peer = try await RawPeer(world.hub, ada)
            peer.send(.push(chats.flatMap { [pushed(custom(1), in: $0, at: 1, peer.replica, 1), pushed(custom(2), in: $0, at: 2, peer.replica, 3)] }))
            try await eventually { peer.answers == 4 }
            for chat in chats { _ = try await world.hubStore.append((0..<5000).map { Submission(message("more \($0)", in: chat, by: bob)) }) }
            peer.forget()
            if spent > 0 { peer.spendAllBut(1) }
            let repeats = chats.map { chat in
                var event = pushed(custom(1), in: chat, at: 1, peer.replica, 1)
                event.isFirstSending = false
                return event
            }
            peer.send(.push(repeats + chats.map { pushed(custom(2), in: $0, at: 2, peer.replica, 5) }))
            peer.send(.push(chats.map { pushed(custom(3), in: $0, at: 3, peer.replica, 6) }))
            try await eventually {
                if spent > 0 { peer.tick() }
                return peer.answers == 6
            }
            #expect(peer.accepted.map(\.isDuplicate) == [true, true, true, true, false, false] && peer.accepted.map(\.seq) == [2, 2, 3, 3, 5004, 5004])
            peer.end()
        }
    }

    @Test("For that logs are read one by one, as far as a peer's allowance lasts; then it waits, and all is decided in order") func waiting() async throws {
        try await withWorld { options in
            // Nothing comes back by itself.
            let now = options.execution.now()
            options.execution.now = { now }
        } _: { world in
            var chats: [ConversationID] = []
            for _ in 0..<3 { chats.append(try await world.hubStore.createConversation(.group, author: bob, participants: [ada])) }
            func pushed(_ chat: ConversationID, _ number: UInt8, _ counter: UInt64, _ replica: ReplicaID) -> PushedEvent {
                self.pushed(custom(number), in: chat, at: UInt64(number), replica, counter)
            }
            let first = try await RawPeer(world.hub, ada)
            first.send(.push(chats.map { pushed($0, 1, 1, first.replica) }))
            try await eventually { first.answers == 3 }
            // As much as one log costs.
            first.forget()
            first.spendAllBut(1)
            first.send(.push(chats.map { pushed($0, 1, 2, first.replica) }))
            first.send(.push(chats.map { pushed($0, 2, 3, first.replica) }))
            // One log more each time that there is something left, as about once a second.
            for answers in [0, 0, 3, 3, 3] {
                if answers > 0 { try await eventually { first.answers == answers } }
                try await Task.sleep(for: .milliseconds(20))
                #expect(first.answers == answers)
                first.spendAllBut(1)
                first.tick()
            }
            try await eventually { first.answers == 6 }
            #expect(first.accepted.map(\.isDuplicate) == [true, true, true, false, false, false])
            #expect(first.accepted.map(\.seq) == [2, 2, 2, 3, 3, 3])
            first.end()
        }
    }

    @Test("A log that cannot be read holds up only what is pushed of it", arguments: [false, true], [false, true])
    func unreadable(_ isRepeat: Bool, ofColumns: Bool) async throws {
        let clock = Monitor(Execution.tasks.now())
        try await withWorld { options in
            options.execution.now = { clock.withLock { $0 } }
        } _: { world in
            var peer = try await RawPeer(world.hub, ada)
            var chats: [ConversationID] = [], ids: [ConversationID: MessageID] = [:]
            // Runs of one log each.
            for _ in 0..<2 {
                let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
                chats.append(chat)
                ids[chat] = try await world.hubStore.send("mine", to: chat, from: ada)
                peer.forget()
                peer.send(.push([pushed(custom(1), in: chat, at: 1, peer.replica, 1)]))
                try await eventually { peer.answers == 1 }
                // All texts are in one frame.
                _ = try await world.hubStore.append(message(noise(4000), in: chat, by: bob))
                try world.hubStore.log.flush()
            }
            peer.end()
            let told = Monitor("")
            try world.reopenHub(log: { line in told.withLock { $0 += line } }) { path in
                _ = try EventStore.damageRun(at: path, number: 0) { $0[ofColumns ? 100 : $0.count / 2] ^= 0x10 }
            }
            let (unreadable, other) = (chats[0], chats[1])
            #expect(throws: EventLogError.self) { try world.hubStore.log.events(in: .conversation(unreadable)) }
            // It does not ask for what it has.
            peer = try await RawPeer(world.hub, ada) { $0.cursor = Cursor(store: world.hubStore.log.id, incarnation: 0, position: 0) }
            let counter: UInt64 = isRepeat ? 1 : 2
            peer.forget()
            peer.send(
                .push([
                    pushed(custom(1), in: unreadable, at: 1, peer.replica, counter), pushed(custom(1), in: other, at: 1, peer.replica, counter),
                    pushed(custom(2), in: unreadable, at: 2, peer.replica, 3), pushed(custom(2), in: other, at: 2, peer.replica, 3),
                ]))
            try await eventually { peer.answers >= 2 }
            peer.send(.push([pushed(custom(3), in: unreadable, at: 3, peer.replica, 4), pushed(custom(3), in: other, at: 3, peer.replica, 4)]))
            try await eventually { peer.answers >= 3 }
            #expect(peer.accepted.map(\.log) == [LogID](repeating: .conversation(other), count: 3) && peer.refused.isEmpty)
            #expect(peer.accepted.map(\.isDuplicate) == [true, false, false])
            #expect(told.withLock { $0.contains("log \(unreadable): what is pushed cannot be decided: ") } && peer.bye == nil)
            #expect(!peer.frames.contains { if case .unreadable = $0 { true } else { false } })
            // Who does not know what that means sends it again in another session.
            clock.withLock { $0 += 9_999 }
            peer.tick()
            peer.send(.ping(3))
            try await eventually { peer.frames.contains(.pong(3)) }
            #expect(peer.bye == nil)
            clock.withLock { $0 += 1 }
            peer.tick()
            try await eventually { peer.bye != nil }
            #expect(peer.bye?.code == .internalError)
            // Others are told, and go on.
            peer = try await RawPeer(world.hub, ada) {
                ($0.cursor, $0.takesUnreadable) = (Cursor(store: world.hubStore.log.id, incarnation: 0, position: 0), true)
            }
            peer.forget()
            peer.send(.push([unreadable, other].map { pushed(custom(1), in: $0, at: 1, peer.replica, 5) }))
            try await eventually { peer.answers == 1 && peer.frames.contains(.unreadable(Unreadable(undecided: [.conversation(unreadable)]))) }
            clock.withLock { $0 += 15_000 }
            peer.tick()
            peer.send(.push([unreadable, other].map { pushed(custom(5), in: $0, at: 5, peer.replica, 6) }))
            try await eventually { peer.answers == 2 }
            #expect(peer.accepted.map(\.log) == [.conversation(other), .conversation(other)] && peer.bye == nil)
            peer.end()
            // What the writer reads.
            peer = try await RawPeer(world.hub, ada) { $0.cursor = Cursor(store: world.hubStore.log.id, incarnation: 0, position: 0) }
            peer.forget()
            peer.send(
                .push(
                    [
                        (other, .messageEdited(message: .random(), text: "edited")),
                        (unreadable, message("mine", in: other, by: ada, id: ids[unreadable]!).content),
                        (other, .messageEdited(message: ids[other]!, text: "edited")), (unreadable, .messageEdited(message: ids[unreadable]!, text: "edited")),
                    ].enumerated().map { (number, event: (chat: ConversationID, content: Event.Content)) in
                        var event = pushed(event.content, in: event.chat, at: UInt64(number) + 9, peer.replica, UInt64(number) + 9)
                        event.mayStandFrom = 0
                        return event
                    }))
            try await eventually { !peer.accepted.isEmpty && !peer.refused.isEmpty }
            // What stands before it in the PUSH is decided once.
            #expect(peer.refused.map(\.code) == ["unknown_message"] && peer.bye == nil)
            #expect(peer.accepted.map(\.counter) == [11])
            peer.end()
        }
    }

    @Test("A token that allows less than the last one holds for what is not decided yet") func narrowed() async throws {
        try await withWorld { options in
            let now = options.execution.now()
            options.execution.now = { now }
        } _: { world in
            var chats: [ConversationID] = []
            for _ in 0..<2 { chats.append(try await world.hubStore.createConversation(.group, author: bob, participants: [ada])) }
            var options = HubOptions { token, claimed, reply in reply(.success(Identity(user: claimed, isService: token.isEmpty))) }
            options.execution.now = { [now = options.execution.now()] in now }
            let hub = try Hub(store: world.hubStore, options: options)
            let peer = try await RawPeer(hub, eve)
            func push(_ counter: UInt64) { peer.send(.push(chats.map { pushed(custom(1), in: $0, at: counter, peer.replica, counter) })) }
            push(1)
            try await eventually { peer.answers == 2 }
            #expect(peer.accepted.count == 2)
            peer.forget()
            // One log is read, the other waits, and the next PUSH does.
            peer.spendAllBut(1)
            push(2)
            push(3)
            peer.send(.token("less"))
            peer.send(.ping(9))
            try await eventually { peer.frames.contains(.pong(9)) }
            #expect(peer.answers == 0)
            peer.refill()
            try await eventually { peer.answers == 4 }
            #expect(peer.refused.map(\.code) == [String](repeating: "forbidden", count: 4))
            peer.end()
            hub.shutdown()
        }
    }
}
