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

    /// Places behind entries, each with what tells where in an order it comes.
    private struct Order {
        /// By marks ascending; each with the last place up to it, and the first from it on.
        private var marks: [(mark: UInt64, last: Int, first: Int)] = []

        mutating func add(_ mark: UInt64, _ place: Int) { marks.append((mark, place, place)) }

        mutating func sort() {
            marks.sort { $0.mark < $1.mark }
            for index in marks.indices.dropFirst() { marks[index].last = max(marks[index].last, marks[index - 1].last) }
            for index in marks.indices.dropLast().reversed() { marks[index].first = min(marks[index].first, marks[index + 1].first) }
        }

        /// Behind all that come before a mark; 0: none does.
        func place(behindAllBefore mark: UInt64) -> Int {
            let count = count { $0 < mark }
            return count > 0 ? marks[count - 1].last : 0
        }

        /// Before the first that comes after a mark.
        func place(beforeAllAfter mark: UInt64) -> Int {
            let count = count { $0 <= mark }
            return count < marks.count ? marks[count].first - 1 : .max
        }

        private func count(_ isBefore: (UInt64) -> Bool) -> Int {
            var (low, high) = (0, marks.count)
            while low < high {
                let middle = (low + high) / 2
                if isBefore(marks[middle].mark) { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }

    /// What of each lane was sent, by counters.
    private var lanes: [Lane: Order] = [:]
    /// What of a conversation's log was sent, and what of that a hub had, by clocks.
    private var sent: [LogID: Order] = [:]
    private var had: [LogID: Order] = [:]
    /// Behind how many entries the next event of a log goes.
    private var ofLog: [LogID: Int] = [:]

    init(_ entries: [OutboxEntry]) {
        for (index, entry) in entries.enumerated() {
            let log = entry.event.log, place = index + 1
            if entry.state == .sent { lanes[Lane(log: log, replica: entry.origin.replica), default: Order()].add(entry.origin.counter, place) }
            // What is an offer itself was before what its old lane sent behind it.
            if let former = entry.former { lanes[Lane(log: log, replica: former.replica), default: Order()].add(former.counter, place) }
            // Of preferences it is the clocks that count, not the order.
            guard case .conversation = log, !entry.isFailed else { continue }
            if entry.state == .sent { sent[log, default: Order()].add(entry.origin.hlc.rawValue, place) }
            if entry.isAccepted || entry.former != nil { had[log, default: Order()].add(entry.origin.hlc.rawValue, place) }
        }
        for lane in lanes.keys { lanes[lane]!.sort() }
        for log in sent.keys { sent[log]!.sort() }
        for log in had.keys { had[log]!.sort() }
    }

    /// To be asked of the events in their order.
    mutating func place(of event: RecordedEvent) -> Int {
        let (lane, clock) = (lanes[Lane(log: event.log, replica: event.origin.replica)], event.origin.hlc.rawValue)
        // Clocks may have been wrong, and what was tried again stands behind what was made after it: nothing goes behind what was sent after it for that.
        let made = min(
            had[event.log]?.place(behindAllBefore: clock) ?? 0, sent[event.log]?.place(beforeAllAfter: clock) ?? .max,
            lane?.place(beforeAllAfter: event.origin.counter) ?? .max)
        let ofLane = lane?.place(behindAllBefore: event.origin.counter) ?? 0
        // A preference goes behind what its conversation has. Not the reverse: through the log of preferences one conversation would keep another from its place.
        let place = max(ofLane, made, ofLog[.conversation(event.event.conversation)] ?? 0, ofLog[event.log] ?? 0)
        pass(event, place)
        return place
    }

    /// What is of an event's log and comes after it goes behind so many entries, too.
    mutating func pass(_ event: RecordedEvent, _ place: Int) { ofLog[event.log] = max(ofLog[event.log] ?? 0, place) }
}
