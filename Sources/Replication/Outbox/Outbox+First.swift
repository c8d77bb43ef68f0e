internal import EventLog

extension Outbox {
    /// All entries, and events that go before them, each as early as its order allows; `nil`: none of the events is new.
    ///
    /// One goes behind what its lane sent before it and is there still, as that has not come, and behind what a hub had before it was set back, under whatever id
    /// that is known now, and its clock tells was made before it. One that is there already stays where it is. What was given behind either goes behind it if it is
    /// of the same log, and a preference if it is of the same conversation.
    func with(
        first events: [RecordedEvent], sentNonce: [UInt8] = [], wasSent: (RecordedEvent) -> Bool = { _ in false }
    ) -> [OutboxEntry]? {
        let entries = entries
        var places = Places(entries)
        var given: [(entry: OutboxEntry, place: Int)] = []
        // What is on its way as an offer already, of another life of the hub: the clock tells.
        var known: [HLC: [(event: Event, place: Int)]] = [:]
        for (index, entry) in entries.enumerated() { known[entry.origin.hlc, default: []].append((entry.event, index + 1)) }
        for event in events {
            let isAgain = wasSent(event)
            if !isAgain, let twin = known[event.origin.hlc]?.first(where: { $0.event == event.event }) {
                places.pass(event, twin.place)
                continue
            }
            let place = places.place(of: event)
            known[event.origin.hlc, default: []].append((event.event, place))
            let origin = isAgain ? event.origin : Origin(replica: identity.replica, counter: 0, hlc: event.origin.hlc)
            var entry = OutboxEntry(id: 0, event: event.event, origin: origin, nonce: isAgain ? sentNonce : identity.nonce)
            (entry.state, entry.wasSent) = (isAgain ? .sent : .pending, true)
            if !isAgain, event.origin.counter > 0 { entry.former = FormerOrigin(replica: event.origin.replica, counter: event.origin.counter) }
            given.append((entry, place))
        }
        if given.isEmpty { return nil }
        let byPlace = Dictionary(grouping: given, by: \.place)
        var all: [OutboxEntry] = []
        for index in 0...entries.count {
            for (entry, _) in byPlace[index] ?? [] { all.append(entry.with(id: UInt64(all.count + 1))) }
            if index < entries.count { all.append(entries[index].with(id: UInt64(all.count + 1))) }
        }
        return all
    }
}

/// Behind how many entries of an outbox an event goes that is put before what it can be put before.
private struct Places {
    private struct Lane: Hashable {
        var log: LogID
        var replica: ReplicaID
    }

    /// What of each lane was sent, by counters ascending, with the place behind the last of these so far.
    private var sent: [Lane: [(mark: UInt64, place: Int)]] = [:]
    /// The same of what a hub had, by clocks.
    private var had: [LogID: [(mark: UInt64, place: Int)]] = [:]
    /// Behind how many entries the next event of a log goes.
    private var ofLog: [LogID: Int] = [:]

    init(_ entries: [OutboxEntry]) {
        for (index, entry) in entries.enumerated() {
            let log = entry.event.log
            if entry.state == .sent { sent[Lane(log: log, replica: entry.origin.replica), default: []].append((entry.origin.counter, index + 1)) }
            // What is an offer itself was before what its old lane sent behind it.
            if let former = entry.former { sent[Lane(log: log, replica: former.replica), default: []].append((former.counter, index + 1)) }
            if !entry.isFailed, entry.isAccepted || entry.former != nil { had[log, default: []].append((entry.origin.hlc.rawValue, index + 1)) }
        }
        sent = sent.mapValues(Self.ascending)
        had = had.mapValues(Self.ascending)
    }

    private static func ascending(_ marks: [(mark: UInt64, place: Int)]) -> [(mark: UInt64, place: Int)] {
        var last = 0
        return marks.sorted { $0.mark < $1.mark }.map { mark in
            last = max(last, mark.place)
            return (mark.mark, last)
        }
    }

    /// The place behind all that have less than a mark.
    private static func place(before mark: UInt64, in marks: [(mark: UInt64, place: Int)]?) -> Int {
        guard let marks else { return 0 }
        var (low, high) = (0, marks.count)
        while low < high {
            let middle = (low + high) / 2
            if marks[middle].mark < mark { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? marks[low - 1].place : 0
    }

    /// To be asked of the events in their order.
    mutating func place(of event: RecordedEvent) -> Int {
        let ofLane = Self.place(before: event.origin.counter, in: sent[Lane(log: event.log, replica: event.origin.replica)])
        let made = Self.place(before: event.origin.hlc.rawValue, in: had[event.log])
        // A preference goes behind what its conversation has. Not the reverse: through the log of preferences one conversation would keep another from its place.
        let place = max(ofLane, made, ofLog[.conversation(event.event.conversation)] ?? 0, ofLog[event.log] ?? 0)
        pass(event, place)
        return place
    }

    /// What is of an event's log and comes after it goes behind so many entries, too.
    mutating func pass(_ event: RecordedEvent, _ place: Int) { ofLog[event.log] = max(ofLog[event.log] ?? 0, place) }
}
