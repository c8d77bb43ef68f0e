internal import ConversationStore
internal import Replication

/// What must hold when all is quiet.
extension Simulation {
    func check() throws {
        try hub.history.checkOnce { mayRepeat($0) }
        try checkAnswers()
        for device in devices { try checkPromises(of: device) }
        for device in devices { try checkOrder(of: device) }
        for device in devices { try checkBases(of: device) }
        for device in devices { try settleVanished(of: device) }
        for device in devices { try discardFailed(of: device) }
        for device in devices { try DeviceCheck(device, hub)?.run() }
        try checkHub()
    }

    /// I1: what the hub has acknowledged is in its log, there where it said.
    private func checkAnswers() throws {
        for answer in hub.answers where !answer.isDuplicate {
            guard let events = hub.history.logs[answer.log], answer.seq > 0, answer.seq <= events.count else {
                throw SimulationFailure("I1: the hub acknowledged seq \(answer.seq) of \(answer.log), and has \(hub.history.logs[answer.log]?.count ?? 0)")
            }
            let origin = events[Int(answer.seq) - 1].origin
            guard OriginKey(origin) == OriginKey(replica: answer.replica, counter: answer.counter) else {
                throw SimulationFailure("I1: seq \(answer.seq) of \(answer.log) was acknowledged to \(answer.replica) \(answer.counter), and is \(origin)")
            }
        }
    }

    /// Two devices may say the same at one tick of their clocks.
    private func mayRepeat(_ event: Event) -> Bool { devices.reduce(0) { $0 + $1.promises.count { $0.event == event } } > 1 }

    /// I1: what a device took from its application is in the hub's log, or visibly failed.
    private func checkPromises(of device: DeviceNode) throws {
        guard let replica = device.replica else { return }
        let outbox = Set(replica.outbox.map(\.event))
        for promise in device.promises where !promise.isReleased {
            if hub.history.holds(promise.event) { continue }
            if outbox.contains(promise.event) { continue }
            if promise.mayBeSpoiled, hub.restores > 0 { continue }
            if try isKeptAside(promise, device, replica) || isUncompared(promise.event, device, replica) || isOutOfHands(promise.event, device) { continue }
            // Recorded as a repeat of something that is there: a receipt behind the mark, a leaving of who had left.
            if let origins = device.origins[promise.event], !origins.isDisjoint(with: hub.duplicates) { continue }
            throw SimulationFailure("I1: \(device.name) took \(promise.event), and it is neither in the hub's log nor in the outbox")
        }
    }

    /// What a hub lost and its device cannot offer again is kept aside: of an erased body nothing is left to send, and where the user came in anew
    /// nobody can tell whether it was lost.
    private func isKeptAside(_ promise: Promise, _ device: DeviceNode, _ replica: Replica) throws -> Bool {
        guard let origins = device.origins[promise.event] else { return false }
        // A service's replica is told of all that there is.
        let isUntold = !device.isFollower && hub.history.everFromJoining.contains(promise.event.conversation)
        return try replica.lostEvents().contains { ($0.isErased || isUntold) && origins.contains(OriginKey($0.origin)) }
    }

    /// What stands before a later joining a device does not hold any more: if the hub is set back beyond it then, nobody has it.
    private func isOutOfHands(_ event: Event, _ device: DeviceNode) -> Bool {
        hub.restores > 0 && hub.history.seqs(of: event).contains { hub.history.wasShownFromLater(event.log, $0, device.user) }
    }

    /// Of what it does not ask for now a device does not know yet that the hub has lost it.
    private func isUncompared(_ event: Event, _ device: DeviceNode, _ replica: Replica) throws -> Bool {
        if device.covers(event.log) { return false }
        if try replica.suspectEvents().contains(where: { $0.event == event }) { return true }
        let origins = device.origins[event] ?? []
        return try HeldLog.all(of: replica)[event.log]?.all.contains { $0.event == event || $0.isErased && origins.contains(OriginKey($0.origin)) } ?? false
    }

    /// What a device's application wrote in a conversation stands there in the order in which it was written.
    private func checkOrder(of device: DeviceNode) throws {
        if hub.restores > 0 { return }
        var last: [ConversationID: Seq] = [:]
        let written = device.promises.enumerated().sorted { ($0.element.place ?? $0.offset, $0.offset) < ($1.element.place ?? $1.offset, $1.offset) }
        for promise in written.map(\.element) where !promise.isReleased && !promise.wasRetried {
            switch promise.event.content {
            case .messageSent, .messageEdited: break
            default: continue
            }
            guard let event = hub.history.event(like: promise.event) else { continue }
            let id = event.event.conversation
            if let before = last[id], before > event.seq {
                throw SimulationFailure("\(device.name) wrote \(event.event) after what stands at seq \(before), and it stands at \(event.seq)")
            }
            last[id] = event.seq
        }
    }

    /// What rests on a refused event was refused with it, unless it was sent again for itself. A hub that was set back may know nothing of the refusal.
    private func checkBases(of device: DeviceNode) throws {
        if device.wasRestored || hub.restores > 0 { return }
        for promise in device.promises where !promise.wasRetried {
            guard let base = promise.refusedBase, hub.history.holds(promise.event) else { continue }
            throw SimulationFailure("\(device.name) wrote \(promise.event) in a conversation that the hub refused, \(base), and it stands in another")
        }
    }

    /// What was confirmed once and went with a hub's lost days is there again, kept aside, or failed where it is the user's own.
    private func settleVanished(of device: DeviceNode) throws {
        guard let replica = device.replica else { return }
        func message(_ event: Event) -> MessageID? { if case .messageSent(let message) = event.content { message.id } else { nil } }
        // What is suspect waits for its device to ask for its log again.
        let aside = try replica.lostEvents() + replica.suspectEvents().filter { !device.covers($0.log) }
        let kept = Set((aside.map(\.event) + replica.outbox.map(\.event) + device.discarded).compactMap(message))
        for (id, messages) in device.observation.vanished {
            let now = Set(try replica.store.timeline(of: id, limit: .max)?.messages.map(\.id) ?? [])
            // Of what lies in a hole, there or where it stands now, it cannot be told yet.
            let hole = replica.holes.first { $0.log == .conversation(id) }?.seqs ?? 0...0
            // Who came in anew may not be shown what stands there again before.
            let joined = hub.history.isFromJoining(id) ? hub.history.joinedSeq(device.user, in: .conversation(id)) : 1
            let inHole = Set(hub.history.events(of: .conversation(id), through: max(hole.upperBound, joined - 1)).compactMap { message($0.event) })
            // Nor what was before they came in anew, if the history has been opened since.
            let before = Set(
                hub.history.events(of: .conversation(id), through: .max).filter { hub.history.wasShownFromLater(.conversation(id), $0.seq, device.user) }
                    .compactMap { message($0.event) })
            let gone = messages.filter { message in
                !now.contains(message.id) && !kept.contains(message.id) && !hole.contains(message.seq) && !inHole.contains(message.id)
                    && !before.contains(message.id)
                    && !hub.history.wasShownFromLater(.conversation(id), message.seq, device.user)
            }
            if let gone = gone.first {
                throw SimulationFailure("\(device.name): message \(gone.id) of \(id) was confirmed, is gone with the hub's lost days, and was not kept aside")
            }
        }
    }

    private func discardFailed(of device: DeviceNode) throws {
        while let replica = device.replica, replica.outbox.contains(where: { $0.isFailed || $0.isWaiting }) {
            let count = replica.outbox.count
            try device.discardSome(replica)
            guard replica.outbox.count < count else { throw SimulationFailure("\(device.name) keeps \(replica.outbox) in its outbox, which nothing moves") }
        }
    }

    private func checkHub() throws {
        guard let store = hub.store else { return }
        let model = Model(hub.history.logs.keys.flatMap { hub.history.events(of: $0, through: .max) })
        for id in model.conversationIDs {
            guard let page = try store.timeline(of: id, limit: .max) else { throw SimulationFailure("the hub has no timeline of \(id)") }
            if let found = difference(page.messages.map { Model.TimelineRow($0, page.receipts) }, model.timeline(id)!) {
                throw SimulationFailure("the hub: timeline of \(id): \(found)")
            }
        }
        for user in users {
            if let found = difference(try store.lobby(of: user, limit: .max).rows.map { Model.LobbyRow($0) }, model.lobby(user)) {
                throw SimulationFailure("the hub: lobby of \(user): \(found)")
            }
        }
        guard try store.isFold() else { throw SimulationFailure("I4: the hub's projections are not the fold of its log") }
    }
}
