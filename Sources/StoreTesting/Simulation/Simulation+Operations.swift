internal import ConversationStore
internal import Replication

/// What happens: to conversations, and to machines and networks.
extension Simulation {
    private enum Operation {
        case converse, send, stream, goOn, edit, delete, react, receipt, title, history, prefer, join, leave, custom, misbehave, type
        case retry, discard, editPending
        case crash, crashLater, restart, copy, restore, replace, decay, fill, fail, flush, rebuild, erase, rescope, fetch
        case hubCrash, hubCrashLater, hubRestart, hubBackUp, hubRestore, hubFlush, hubRebuild, hubErase, hubSign
        case cut, cutAll, partition, rejoin, setClock, setHubClock, renew, setBackBoth
    }

    func operate(isEarly: Bool) {
        if damagesHub, world.random.chance(0.02) { hub.decay() }
        let device = world.random.element(devices)
        let operation: Operation =
            isEarly
            ? .converse
            : world.random.weighted([
                (6, .converse), (40, .send), (6, .stream), (24, .goOn), (8, .edit), (4, .delete), (10, .react), (16, .receipt), (4, .title), (2, .history),
                (6, .prefer),
                (5, .join), (4, .leave), (3, .custom), (4, .misbehave), (1, .type),
                (3, .retry), (2, .discard), (3, .editPending),
                (3, .crash), (4, .crashLater), (2, .restart), (2, .copy), (1, .restore), (4, .replace), (3, .decay), (1, .fill), (1, .fail), (2, .flush),
                (1, .rebuild),
                (1, .erase),
                (4, .rescope),
                (3, .fetch),
                (1, .hubCrash), (2, .hubCrashLater), (1, .hubRestart), (2, .hubBackUp), (1, .hubRestore), (3, .hubFlush), (1, .hubRebuild), (2, .hubErase),
                (12, .hubSign),
                (8, .cut), (1, .cutAll), (3, .partition), (6, .rejoin), (2, .setClock), (1, .setHubClock), (2, .renew),
                (1, .setBackBoth),
            ])
        world.log("\(device.name): \(operation)")
        switch operation {
        case .converse, .send, .stream, .goOn, .edit, .delete, .react, .receipt, .title, .history, .prefer, .join, .leave, .custom,
            .misbehave:
            if device.isFollower, !device.isProxy { break }
            device.enter { replica in
                let events = try events(operation, device, replica)
                if !events.isEmpty { try device.take(events, replica) }
            }
        case .type:
            device.enter { replica in
                let user = device.isProxy ? world.random.element(users) : device.user
                guard let id = try conversation(replica, user) else { return }
                device.connection?.tell(Typing(conversation: id, user: user, isTyping: true))
            }
        case .retry: device.enter { try device.retryAll($0) }
        case .discard: device.enter { try device.discardSome($0) }
        case .editPending: device.enter { try device.editSome($0, text: text()) }
        case .crash: device.fall(keeping: keeping())
        case .crashLater: device.disk.crash(atCall: 1 + world.random.below(60), keeping: keeping())
        case .restart: device.restart()
        case .copy: device.copy()
        case .restore: device.restore { world.random.element($0) }
        case .replace: device.replace()
        case .decay: device.decay()
        case .fill:
            device.disk.bytesFree = world.random.below(64 << 10)
            world.after(world.random.within(100...30_000)) { device.disk.bytesFree = nil }
        case .fail:
            device.disk.fail(
                world.random.element([.write, .sync, .commit]), 1 + world.random.below(10), with: world.random.element([.noSpace, .inputOutput, .short(40)]))
        case .flush: device.enter { try $0.store.log.flush() }
        case .rebuild: device.enter { try $0.store.rebuild() }
        case .erase: device.enter { try device.eraseSome($0) }
        case .rescope: if device.isScoped { device.ask(for: scope(for: device)) }
        case .fetch: device.enter { device.fillSome($0) }
        case .hubCrash: hub.fall(keeping: keeping())
        case .hubCrashLater: hub.disk.crash(atCall: 1 + world.random.below(100), keeping: keeping())
        case .hubRestart: hub.stop()
        case .hubBackUp:
            hub.backUp()
            if world.random.chance(0.3) { loseSoon() }
        case .hubRestore:
            hub.restore { world.random.element($0) }
            if world.random.chance(0.5) { world.after(world.random.within(2000...60_000)) { [self] in if !isHealing { hub.putForward() } } }
        case .hubFlush: hub.flush()
        case .hubRebuild: hub.rebuild()
        case .hubErase: hub.erase()
        case .hubSign: hub.sign()
        case .cut: device.cut()
        case .cutAll: hub.cutAll()
        case .partition:
            device.isPartitioned = true
            device.cut()
            world.after(world.random.within(1000...60_000)) { device.isPartitioned = false }
        case .setBackBoth: setBackBoth(device)
        case .rejoin: for device in devices { device.isPartitioned = false }
        case .setClock: device.clock.set(skew: skew())
        case .setHubClock: hub.clock.set(skew: skew())
        case .renew:
            device.enter { _ in
                device.connection?.renew(token: Token.make(device.user, expiresAt: hub.clock.wallMilliseconds + world.random.within(0...600_000)))
            }
        }
    }

    /// The hub signs right behind a backup, devices come back and see that, and then the backup is all that is left.
    private func loseSoon() {
        hub.sign()
        hub.cutAll()
        world.after(world.random.within(2000...30_000)) { [self] in if !isHealing { hub.restore { $0.last! } } }
    }

    /// A device writes what has no id, out of reach, and is copied; it sends that, and a hub that was set back takes it anew; then it is set back too, to where
    /// it had not sent it, and its line may break before it does.
    private func setBackBoth(_ device: DeviceNode) {
        if device.isFollower, !device.isProxy { return }
        hub.backUp()
        device.isPartitioned = true
        device.fall(keeping: .everything)
        world.after(5000) { [self] in
            if isHealing { return }
            for _ in 0...world.random.below(3) {
                let operation = world.random.element([Operation.edit, .react, .title, .prefer, .join, .leave, .custom])
                device.enter { replica in
                    let events = try events(operation, device, replica)
                    if !events.isEmpty { try device.take(events, replica) }
                }
            }
            device.isPartitioned = false
            guard device.copy() else { return }
            world.after(world.random.within(2000...20_000)) { [self] in
                if isHealing { return }
                hub.restore { $0.last! }
                world.after(world.random.within(5000...30_000)) { [self] in
                    if isHealing { return }
                    device.restore { $0.last! }
                    if device.isScoped, world.random.chance(0.5) { device.ask(for: scope(for: device)) }
                    for _ in 0..<world.random.below(4) { world.after(world.random.within(100...5000)) { device.cut() } }
                }
            }
        }
    }

    /// Something that a device may ask for.
    func scope(for device: DeviceNode) -> Scope {
        switch world.random.below(3) {
        case 0: .mine
        case 1: .newest(conversations: UInt64(world.random.below(5)), messages: UInt64(world.random.below(7)))
        default:
            // Some of its user's, and now and then one that is not.
            .conversations(someConversations(of: device))
        }
    }

    private func someConversations(of device: DeviceNode) -> [ConversationID] {
        let own = hub.history.ends(for: device.user)
        return hub.history.conversations.filter { world.random.chance(own[.conversation($0)] == nil ? 0.1 : 0.5) }
    }

    private var fromJoining: Event.Attribute { Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue) }

    private func keeping() -> SimulatedDisk.Keeping { world.random.weighted([(1, .nothing), (1, .everything), (3, .some(seed: world.random.next()))]) }

    /// Whether an event makes a conversation under an id that another one has.
    func isTaken(_ event: Event) -> Bool {
        if case .conversationCreated = event.content { hub.history.logs[event.log] != nil } else { false }
    }

    // What applications write.

    func text() -> String {
        texts += 1
        let words = world.random.weighted([(20, 1 + world.random.below(20)), (2, 200), (1, 3000)])
        return "‹\(texts)›" + String(repeating: " wörd", count: words)
    }

    private func conversation(_ replica: Replica, _ user: UserID) throws -> ConversationID? {
        let rows = try replica.store.lobby(of: user, limit: 20).rows
        if rows.isEmpty { return nil }
        return world.random.chance(0.6) ? rows[0].conversation : world.random.element(rows).conversation
    }

    func messages(_ count: Int, in conversation: ConversationID, by user: UserID) -> [Event] {
        (0..<count).map { _ in
            let id = MessageID(high: world.random.next(), low: world.random.next())
            return Event(conversation: conversation, author: user, content: .messageSent(Event.Message(id: id, role: .user, text: text())))
        }
    }

    private func message(_ replica: Replica, _ id: ConversationID, _ isOf: (Message) -> Bool = { _ in true }) throws -> Message? {
        let messages = try replica.store.timeline(of: id, limit: 20)?.messages.filter(isOf) ?? []
        return messages.isEmpty ? nil : world.random.element(messages)
    }

    private func events(_ operation: Operation, _ device: DeviceNode, _ replica: Replica) throws -> [Event] {
        let user = device.isProxy ? world.random.element(users) : device.user
        func conversation() throws -> ConversationID? { try self.conversation(replica, user) }
        func event(_ id: ConversationID, _ content: Event.Content, by author: UserID? = nil) -> [Event] {
            [Event(conversation: id, author: author ?? user, content: content)]
        }
        if case .converse = operation {
            let others = users.filter { $0 != user && world.random.chance(0.6) }
            let title: String? = world.random.chance(0.5) ? text() : nil
            let id = ConversationID.random()
            var made = event(id, .conversationCreated(kind: world.random.element(Event.ConversationKind.allCases), title: title, participants: others))
            if world.random.chance(0.2) { made += event(id, .conversationUpdated(title: nil, attributes: [fromJoining])) }
            // Some write at once, in the same breath.
            if world.random.chance(0.3) { made += event(id, .messageSent(Event.Message(id: .random(), role: .user, text: text()))) }
            return made
        }
        guard let id = try conversation() else { return [] }
        switch operation {
        case .send:
            let answered = world.random.chance(0.2) ? try message(replica, id) : nil
            return event(id, .messageSent(Event.Message(id: .random(), role: .user, text: text(), replyTo: answered?.id)))
        case .stream:
            let stream = DeviceNode.OpenAnswer(author: user, conversation: id, message: .random(), next: 0)
            device.streams.append(stream)
            return event(id, .messageSent(Event.Message(id: stream.message, role: .assistant, text: "", isStreaming: true)))
        case .goOn:
            guard !device.streams.isEmpty else { return [] }
            let place = world.random.below(device.streams.count)
            let stream = device.streams[place]
            switch world.random.below(8) {
            case 0:
                device.streams.remove(at: place)
                return event(stream.conversation, .messageCompleted(message: stream.message, finishReason: "stop", usage: nil), by: stream.author)
            case 1:
                device.streams.remove(at: place)
                return event(stream.conversation, .messageInterrupted(message: stream.message, reason: "stopped"), by: stream.author)
            default:
                let count = 1 + world.random.below(5)
                device.streams[place].next += UInt32(count)
                return (0..<count).flatMap { index in
                    event(stream.conversation, .chunkAppended(message: stream.message, index: stream.next + UInt32(index), text: text()), by: stream.author)
                }
            }
        case .edit:
            guard let message = try message(replica, id, { $0.author == user && $0.state == .complete }) else { return [] }
            return event(id, .messageEdited(message: message.id, text: text()))
        case .delete:
            guard let message = try message(replica, id, { $0.author == user && $0.state != .deleted }) else { return [] }
            return event(id, .messageDeleted(message: message.id))
        case .react:
            guard let message = try message(replica, id) else { return [] }
            return event(id, .reactionSet(message: message.id, emoji: world.random.element(["👍", "❤", "e\u{301}", "\u{e9}"]), isOn: world.random.chance(0.7)))
        case .receipt:
            guard let message = try message(replica, id) else { return [] }
            return event(id, world.random.chance(0.6) ? .receiptRead(upTo: message.id) : .receiptDelivered(upTo: message.id))
        case .title:
            return event(id, .conversationUpdated(title: text(), attributes: world.random.chance(0.5) ? [] : [Event.Attribute(name: "colour", value: text())]))
        case .history:
            let attribute = world.random.chance(0.7) ? fromJoining : Event.Attribute(name: ConversationHistory.attribute, value: nil)
            return event(id, .conversationUpdated(title: nil, attributes: [attribute]))
        case .prefer:
            let value: String? = world.random.chance(0.7) ? text() : nil
            return event(id, .preferenceSet(key: world.random.element(["pinned", "muted", "draft"]), value: value))
        case .join: return event(id, .participantJoined(world.random.element(users)))
        case .leave: return event(id, .participantLeft(world.random.chance(0.5) ? user : world.random.element(users)))
        case .custom: return event(id, .custom(name: "test.\(world.random.below(3))", payload: Array(text().utf8)))
        case .misbehave:
            // What the hub must refuse.
            switch world.random.below(4) {
            case 3:
                // Under an id that another conversation has, and with what is to be said in the new one.
                return event(id, .conversationCreated(kind: .group, title: text(), participants: []))
                    + event(id, .messageSent(Event.Message(id: .random(), role: .user, text: text())))
            case 0:
                guard let other = try message(replica, id, { $0.author != user }) else { return [] }
                return event(id, .messageEdited(message: other.id, text: text()))
            case 1: return event(id, .messageSent(Event.Message(id: .random(), role: .user, text: text(), replyTo: .random())))
            default:
                let message = MessageID.random()
                return event(id, .messageSent(Event.Message(id: message, role: .user, text: text())))
                    + event(id, .messageSent(Event.Message(id: message, role: .user, text: text())))
            }
        default: return []
        }
    }
}
