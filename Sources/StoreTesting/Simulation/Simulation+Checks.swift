internal import ConversationStore
internal import Replication

/// What must hold when all is quiet.
extension Simulation {
    func check() throws {
        try hub.history.checkOnce()
        try checkAnswers()
        for device in devices { try checkPromises(of: device) }
        for device in devices { try checkOrder(of: device) }
        for device in devices { try settleVanished(of: device) }
        for device in devices { try discardFailed(of: device) }
        for device in devices { try checkEvents(of: device) }
        for device in devices { try checkScreens(of: device) }
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

    /// I1: what a device took from its application is in the hub's log, or visibly failed.
    private func checkPromises(of device: DeviceNode) throws {
        guard let replica = device.replica else { return }
        let outbox = Set(replica.outbox.map(\.event))
        for promise in device.promises where !promise.isReleased {
            if hub.history.holds(promise.event) { continue }
            if outbox.contains(promise.event) { continue }
            // Recorded as a repeat of something that is there: a receipt behind the mark, a leaving of who had left.
            if let origins = device.origins[promise.event], !origins.isDisjoint(with: hub.duplicates) { continue }
            throw SimulationFailure("I1: \(device.name) took \(promise.event), and it is neither in the hub's log nor in the outbox")
        }
    }

    /// What a device's application wrote in a conversation stands there in the order in which it was written.
    private func checkOrder(of device: DeviceNode) throws {
        if device.wasRestored || hub.restores > 0 { return }
        var last: [ConversationID: Seq] = [:]
        for promise in device.promises where !promise.isReleased && !promise.wasRetried {
            guard case .messageSent = promise.event.content, let event = hub.history.event(like: promise.event) else { continue }
            let id = event.event.conversation
            if let before = last[id], before > event.seq {
                throw SimulationFailure("\(device.name) wrote \(event.event) after what stands at seq \(before), and it stands at \(event.seq)")
            }
            last[id] = event.seq
        }
    }

    /// What was confirmed once and went with a hub's lost days is there again, kept aside, or failed where it is the user's own.
    private func settleVanished(of device: DeviceNode) throws {
        guard let replica = device.replica else { return }
        func message(_ event: Event) -> MessageID? { if case .messageSent(let message) = event.content { message.id } else { nil } }
        let kept = Set(try replica.lostEvents().compactMap { message($0.event) } + (replica.outbox.map(\.event) + device.discarded).compactMap(message))
        for (id, messages) in device.observation.vanished {
            let now = Set(try replica.store.timeline(of: id, limit: .max)?.messages.map(\.id) ?? [])
            if let gone = messages.subtracting(now).subtracting(kept).first {
                throw SimulationFailure("\(device.name): message \(gone) of \(id) was confirmed, is gone with the hub's lost days, and was not kept aside")
            }
        }
    }

    private func discardFailed(of device: DeviceNode) throws {
        while let replica = device.replica, !replica.outbox.isEmpty {
            guard try replica.discard() > 0 else { throw SimulationFailure("\(device.name) keeps \(replica.outbox) in its outbox, which nothing moves") }
        }
    }

    /// A device holds of each log just what its user may see, event by event, with the same head.
    private func checkEvents(of device: DeviceNode) throws {
        guard let replica = device.replica, let store = hub.store else { return }
        var held: [LogID: [RecordedEvent]] = [:]
        try replica.store.log.replay { event in
            held[event.log, default: []].append(event)
            return true
        }
        let expected = hub.history.events(for: device.user)
        let heads = HeadCache(store: store.log)
        for log in Set(held.keys).union(expected.keys).sorted(by: { "\($0)" < "\($1)" }) {
            let mine = held[log] ?? []
            let theirs = expected[log] ?? []
            for (mine, theirs) in zip(mine, theirs) {
                var mine = mine
                mine.position = theirs.position
                guard mine == theirs else { throw SimulationFailure("\(device.name): seq \(theirs.seq) of \(log) is \(mine), the hub has \(theirs)") }
            }
            guard mine.count == theirs.count else {
                throw SimulationFailure("\(device.name) holds \(mine.count) events of \(log), and may see \(theirs.count)")
            }
            if mine.isEmpty { continue }
            guard try replica.store.log.head(of: log)?.root == heads.tree(of: log, through: Seq(mine.count))?.root() else {
                throw SimulationFailure("I5: \(device.name) has another head of \(log) at \(mine.count)")
            }
        }
        guard replica.holes.isEmpty else { throw SimulationFailure("\(device.name) still has holes: \(replica.holes)") }
    }

    /// Every screen shows what the model makes of the hub's log, as far as the user may see it.
    private func checkScreens(of device: DeviceNode) throws {
        guard let replica = device.replica else { return }
        let visible = hub.history.events(for: device.user)
        let model = Model(visible.values.joined())
        for id in model.conversationIDs {
            guard let page = try replica.store.timeline(of: id, limit: .max) else { throw SimulationFailure("\(device.name) has no timeline of \(id)") }
            if let found = difference(page.messages.map { Model.TimelineRow($0, page.receipts) }, model.timeline(id)!) {
                throw SimulationFailure("\(device.name): timeline of \(id): \(found)")
            }
        }
        if let found = difference(try replica.store.lobby(of: device.user, limit: .max).rows.map { Model.LobbyRow($0) }, model.lobby(device.user)) {
            throw SimulationFailure("\(device.name): lobby: \(found)")
        }
        guard try replica.store.isFold() else { throw SimulationFailure("I4: \(device.name)'s projections are not the fold of its log") }
    }

    private func checkHub() throws {
        guard let store = hub.store else { return }
        let model = Model(hub.history.logs.values.joined())
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
