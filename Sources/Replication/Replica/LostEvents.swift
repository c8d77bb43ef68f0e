internal import ConversationStore
internal import EventLog

/// The events in `lost`, by what tells that one of them has come again.
struct LostEvents {
    private var events: [LogID: [HLC: [RecordedEvent]]] = [:]

    var isEmpty: Bool { events.isEmpty }

    init(_ side: SideStore) throws { add(try Lost.read(side)) }

    func has(_ log: LogID) -> Bool { events[log] != nil }

    /// Those that an event is. Their maker may have given it a new origin when it offered it again, with one of its times.
    func found(as event: RecordedEvent) -> [RecordedEvent] {
        guard let log = events[event.log] else { return [] }
        var found: [RecordedEvent] = []
        for known in event.times.lazy.flatMap({ log[$0] ?? [] }) where known.event == event.event || Self.isErasedForm(known, event) {
            if !found.contains(known) { found.append(known) }
        }
        return found
    }

    /// Of an erased body the envelope tells. The origin alone does not: a device that was restored from a copy gives one out twice, with its time.
    private static func isErasedForm(_ left: RecordedEvent, _ right: RecordedEvent) -> Bool {
        (left.isErased || right.isErased) && left.origin == right.origin && left.event.author == right.event.author
            && left.event.kindNumber == right.event.kindNumber && left.event.references == right.event.references
    }

    mutating func add(_ new: [RecordedEvent]) {
        for event in new { for time in event.times { events[event.log, default: [:]][time, default: []].append(event) } }
    }

    mutating func remove(_ gone: [RecordedEvent]) {
        for event in gone {
            var log = events[event.log] ?? [:]
            for time in event.times {
                let rest = log[time]?.filter { $0 != event } ?? []
                log[time] = rest.isEmpty ? nil : rest
            }
            events[event.log] = log.isEmpty ? nil : log
        }
    }
}

extension Replica {
    /// What was lost and has come again is lost no longer.
    func settleLost(_ events: [RecordedEvent], _ state: inout State) throws {
        if state.lost.isEmpty { return }
        let found = events.flatMap { state.lost.found(as: $0) }
        if found.isEmpty { return }
        try side.write { try Lost.delete(found, in: SyncTables.lost, &$0) }
        state.lost.remove(found)
    }

    /// The same of what this store holds behind a position of its own.
    func settleLost(after position: Position, _ state: inout State) throws {
        if state.lost.isEmpty { return }
        try settleLost(foundBy: { try store.log.replay(from: position + 1, $0) }, &state)
    }

    /// The same of all that it holds of some logs.
    func settleLost(in logs: Set<LogID>, _ state: inout State) throws {
        for log in logs where state.lost.has(log) { try settleLost(foundBy: { try store.log.replay(log: log, $0) }, &state) }
    }

    private func settleLost(foundBy replay: ((RecordedEvent) -> Bool) throws -> Void, _ state: inout State) throws {
        var found: [RecordedEvent] = []
        let lost = state.lost
        try replay { event in
            if !lost.found(as: event).isEmpty { found.append(event) }
            return true
        }
        try settleLost(found, &state)
    }
}
