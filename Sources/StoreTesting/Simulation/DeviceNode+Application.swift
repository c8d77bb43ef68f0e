internal import ConversationStore
internal import Replication

/// What a device's application does with its replica.
extension DeviceNode {
    func take(_ events: [Event], _ replica: Replica) throws {
        let shown = try clockShown(of: events, replica)
        let entries = try replica.append(events)
        // A crash under the call: it did not return to the application.
        if disk.hasCrashed { return }
        for entry in entries {
            guard let (confirmed, own) = shown[entry.event.conversation] else { continue }
            let before = entry.event.content.isRegisterWrite ? max(confirmed, own) : confirmed
            if entry.origin.hlc > before { continue }
            throw SimulationFailure("\(name): \(entry) was made at \(entry.origin.hlc), when it showed what was written at \(before)")
        }
        let base = events.first.flatMap { simulation.isTaken($0) ? $0 : nil }
        promises += entries.map { Promise(event: $0.event, refusedBase: $0.event == base ? nil : base) }
        connection?.outboxChanged()
    }

    /// Behind what last-write-wins puts all that is shown of the conversations of some events.
    private func clockShown(of events: [Event], _ replica: Replica) throws -> [ConversationID: (confirmed: HLC, own: HLC)] {
        var result: [ConversationID: (HLC, HLC)] = [:]
        let parts = replica.parts, pending = replica.outbox.filter { $0.event.content.writesRegister }
        for id in Set(events.map(\.conversation)) {
            let log = LogID.conversation(id)
            let held = try replica.store.log.event(in: log, at: replica.store.log.lastSeq(of: log))?.hlc
            let own = pending.filter { $0.event.conversation == id }.map(\.origin.hlc)
            let confirmed = [held, parts.first { $0.log == log }?.events.last?.hlc].compactMap { $0 }
            result[id] = (confirmed.max() ?? HLC(rawValue: 0), own.max() ?? HLC(rawValue: 0))
        }
        return result
    }

    func discardSome(_ replica: Replica) throws {
        let failed = replica.outbox.filter { $0.isFailed }
        if failed.isEmpty { return }
        // Before it is done: a crash may come behind it.
        for entry in failed { release(entry.event) }
        discarded += failed.map(\.event)
        try replica.discard()
    }

    func editSome(_ replica: Replica, text: String) throws {
        guard
            let entry = replica.outbox.last(where: { entry in
                guard entry.state != .sent else { return false }
                if case .messageSent = entry.event.content { return true }
                return false
            })
        else { return }
        let place = promises.lastIndex { $0.event == entry.event }.map { promises[$0].place ?? $0 }
        release(entry.event)
        try replica.edit(entry.id, text: text)
        guard let edited = replica.outbox.first(where: { $0.id == entry.id }) else { return }
        promises.append(Promise(event: edited.event, wasRetried: entry.isFailed || entry.isWaiting, place: place))
        if entry.isFailed { try replica.retry([entry.id]) }
        connection?.outboxChanged()
    }

    func retryAll(_ replica: Replica) throws {
        for entry in replica.outbox where entry.isFailed || entry.isWaiting {
            for index in promises.indices where promises[index].event == entry.event { promises[index].wasRetried = true }
        }
        try replica.retry()
        connection?.outboxChanged()
    }

    func release(_ event: Event) {
        for index in promises.indices where promises[index].event == event { promises[index].isReleased = true }
    }

    /// As which origins its events were sent.
    func noteOrigins() {
        for entry in replica?.outbox ?? [] where entry.origin.counter > 0 {
            // This is done after every step: hashing an event, texts and all, takes far longer than seeing that it is the one that was noted.
            let origin = OriginKey(entry.origin)
            let isNoted = noted[entry.id].map { $0.origin == origin && $0.event == entry.event } ?? false
            // Also where it is equal: what shares its memory is compared at once.
            noted[entry.id] = (origin, entry.event)
            if !isNoted { origins[entry.event, default: []].insert(origin) }
        }
    }
}
