internal import EventLog

extension Outbox {
    /// All entries, and events that go before them, each as early as its order allows; `nil`: none of the events is new.
    ///
    /// One goes behind what its lane sent before it and is there still, as that has not come, and behind what a hub had before it was set back, under whatever id
    /// that is known now, and its clock tells was made before it. One that is there already stays where it is. What was given behind either goes behind it if it is
    /// of the same log, and a preference if it is of the same conversation. Before all that, as clocks may have been wrong and what was tried again stands behind
    /// what was made after it: each goes before what needs it, and behind what it needs itself.
    func with(
        first events: [RecordedEvent], sentNonce: [UInt8] = [], wasSent: (RecordedEvent) -> Bool = { _ in false }
    ) -> [OutboxEntry]? {
        let entries = entries
        var places = Places(entries)
        var given: [OutboxEntry] = []
        // What is on its way as an offer already, of another life of the hub: the clock tells.
        var known: [HLC: [(event: Event, place: Int?)]] = [:]
        for (index, entry) in entries.enumerated() { known[entry.origin.hlc, default: []].append((entry.event, index + 1)) }
        for event in events {
            let isAgain = wasSent(event)
            if !isAgain, let twin = event.times.lazy.compactMap({ known[$0]?.first { $0.event == event.event } }).first {
                if let place = twin.place { places.pass(event, place) }
                continue
            }
            for time in event.times { known[time, default: []].append((event.event, nil)) }
            places.add(event, isAgain: isAgain)
            let origin = isAgain ? event.origin : Origin(replica: identity.replica, counter: 0, hlc: event.origin.hlc)
            var entry = OutboxEntry(id: 0, event: event.event, origin: origin, nonce: isAgain ? sentNonce : identity.nonce)
            (entry.state, entry.wasSent) = (isAgain ? .sent : .pending, true)
            if !isAgain, event.origin.counter > 0 { entry.former = FormerOrigin(replica: event.origin.replica, counter: event.origin.counter) }
            given.append(entry)
        }
        if given.isEmpty { return nil }
        let byPlace = Dictionary(grouping: zip(given, places.settled()), by: \.1)
        var all: [OutboxEntry] = []
        // Behind all that are there: a number that was told before names nothing else.
        let first = nextID
        for index in 0...entries.count {
            for (entry, _) in byPlace[index] ?? [] { all.append(entry.with(id: first + UInt64(all.count))) }
            if index < entries.count { all.append(entries[index].with(id: first + UInt64(all.count))) }
        }
        return all
    }
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

/// Behind how many entries of an outbox events go that are put before what they can be put before.
private struct Places {
    private struct Lane: Hashable {
        var log: LogID
        var replica: ReplicaID

        init(_ log: LogID, _ replica: ReplicaID) { (self.log, self.replica) = (log, replica) }
    }

    /// An event to be placed.
    private struct Given {
        var event: RecordedEvent
        /// It goes as it was sent.
        var isAgain: Bool
        /// Behind what its lane sent before it, and before what needs it.
        var least: Int
        var most: Int
        var place: Int
    }

    /// What of each lane was sent, by counters, and what is an offer of what was.
    private var lanes: [Lane: Order] = [:]
    private var formerLanes: [Lane: Order] = [:]
    /// What of a conversation's log was sent, and what of that a hub had, by clocks.
    private var sent: [LogID: Order] = [:]
    private var had: [LogID: Order] = [:]
    private var needs = Needs()
    /// Behind how many entries the next event of a log goes, and behind how many if nothing speaks against it.
    private var ofLog: [LogID: Int] = [:]
    private var ofTwins: [LogID: Int] = [:]
    private var given: [Given] = []

    init(_ entries: [OutboxEntry]) {
        for (index, entry) in entries.enumerated() {
            let log = entry.event.log, place = index + 1
            if entry.state == .sent { lanes[Lane(log, entry.origin.replica), default: Order()].add(entry.origin.counter, place) }
            // What is an offer itself was before what its old lane sent behind it.
            if let former = entry.former { formerLanes[Lane(log, former.replica), default: Order()].add(former.counter, place) }
            needs.add(entry, place)
            // Of preferences it is the clocks that count, not the order.
            guard case .conversation = log else { continue }
            if entry.isFailed { continue }
            if entry.state == .sent { sent[log, default: Order()].add(entry.origin.hlc.rawValue, place) }
            if entry.isAccepted || entry.former != nil { had[log, default: Order()].add(entry.origin.hlc.rawValue, place) }
        }
        for lane in lanes.keys { lanes[lane]!.sort() }
        for lane in formerLanes.keys { formerLanes[lane]!.sort() }
        for log in sent.keys { sent[log]!.sort() }
        for log in had.keys { had[log]!.sort() }
        needs.sort()
    }

    /// Takes an event; in their order.
    mutating func add(_ event: RecordedEvent, isAgain: Bool) {
        let lane = lanes[Lane(event.log, event.origin.replica)], former = formerLanes[Lane(event.log, event.origin.replica)]
        let (clock, counter) = (event.origin.hlc.rawValue, event.origin.counter)
        let conversation = LogID.conversation(event.event.conversation)
        let twins = max(ofTwins[conversation] ?? 0, ofTwins[event.log] ?? 0)
        let made = max(had[event.log]?.place(behindAllBefore: clock) ?? 0, former?.place(behindAllBefore: counter) ?? 0, twins)
        // Nothing goes behind what was sent after it for that.
        let followed = min(
            sent[event.log]?.place(beforeAllAfter: clock) ?? .max, lane?.place(beforeAllAfter: counter) ?? .max,
            former?.place(beforeAllAfter: counter) ?? .max)
        let ofLane = lane?.place(behindAllBefore: counter) ?? 0
        // A preference goes behind what its conversation has. Not the reverse: through the log of preferences one conversation would keep another from its place.
        let behind = max(ofLog[conversation] ?? 0, ofLog[event.log] ?? 0)
        // What goes as it was sent cannot go behind what its lane sent after it.
        let most = min(needs.place(beforeWhatNeeds: event.event), isAgain ? lane?.place(beforeAllAfter: counter) ?? .max : .max)
        // What goes under another id need not stay behind its lane where something needs it before.
        let least = isAgain ? ofLane : min(ofLane, most)
        let place = max(least, min(max(ofLane, min(made, followed), behind), most))
        ofLog[event.log] = max(behind, place)
        given.append(Given(event: event, isAgain: isAgain, least: least, most: most, place: place))
    }

    /// What is of an event's log and comes after it goes behind so many entries, too.
    mutating func pass(_ event: RecordedEvent, _ place: Int) { ofTwins[event.log] = max(ofTwins[event.log] ?? 0, place) }

    /// The places of all that were taken.
    mutating func settled() -> [Int] {
        // What is needed before one goes before it, with all that was given before that of its conversation.
        var first: [LogID: Int] = [:], most: [LogID: Int] = [:]
        for index in given.indices.reversed() {
            guard case .conversation = given[index].event.log else { continue }
            let log = given[index].event.log, place = min(given[index].place, first[log] ?? .max)
            (first[log], most[log]) = (place, min(given[index].most, most[log] ?? .max))
            (given[index].place, given[index].most) = (max(place, given[index].least), most[log]!)
        }
        var last: [LogID: Int] = [:]
        var ofLanes: [Lane: Int] = [:]
        for index in given.indices {
            let event = given[index].event, lane = Lane(event.log, event.origin.replica)
            given[index].place = max(given[index].place, needs.place(behindWhatIsNeededBy: event.event))
            if case .conversation = event.log {
                // What goes behind what it needs takes along what was given behind it.
                given[index].place = max(given[index].place, min(last[event.log] ?? 0, given[index].most))
            }
            if given[index].isAgain {
                // Counters ascend, whatever else is not as it should be.
                let (sent, counter) = (lanes[lane], event.origin.counter)
                let most = sent?.place(beforeAllAfter: counter) ?? .max
                given[index].place = max(min(given[index].place, most), sent?.place(behindAllBefore: counter) ?? 0, ofLanes[lane] ?? 0)
                ofLanes[lane] = given[index].place
            }
            last[event.log] = max(last[event.log] ?? 0, given[index].place)
            needs.add(event.event, given[index].place)
        }
        return given.map(\.place)
    }
}

/// What of a conversation cannot be without what: messages, what speaks of them, the pieces of an answer, and the creation.
private struct Needs {
    private struct Name: Hashable {
        var conversation: ConversationID
        var message: MessageID
    }

    /// Behind how many entries the first comes that makes a message, or a conversation; of what is refused only if there is no other.
    private struct Maker {
        var place: Int
        var isFailed: Bool

        static func add(_ new: Maker, to known: inout Maker?) {
            guard let old = known, old.isFailed == new.isFailed ? old.place <= new.place : new.isFailed else { return known = new }
        }
    }

    private var makers: [Name: Maker?] = [:]
    private var creations: [ConversationID: Maker?] = [:]
    /// How many entries come before the first that needs it.
    private var firstNeeding: [Name: Int] = [:]
    private var firstIn: [ConversationID: Int] = [:]
    /// Of which an entry speaks.
    private var begun: Set<ConversationID> = []
    /// The pieces of a streamed answer, and its end.
    private var streams: [Name: Order] = [:]
    /// Behind how many entries the last piece goes that is to be placed.
    private var lastPieces: [Name: Int] = [:]

    mutating func add(_ entry: OutboxEntry, _ place: Int) {
        let event = entry.event
        // What is made anew behind what was said in it was there.
        if case .conversationCreated = event.content, begun.contains(event.conversation) { return }
        if case .conversation = event.log { begun.insert(event.conversation) }
        if !entry.isTaken { made(event, Maker(place: place, isFailed: entry.isFailed)) }
        for message in entry.event.neededMessages {
            let name = Name(conversation: event.conversation, message: message)
            firstNeeding[name] = min(firstNeeding[name] ?? .max, place - 1)
        }
        if let (message, mark) = event.piece { streams[Name(conversation: event.conversation, message: message), default: Order()].add(mark, place) }
        if case .conversationCreated = event.content { return }
        firstIn[event.conversation] = min(firstIn[event.conversation] ?? .max, place - 1)
    }

    mutating func sort() { for name in streams.keys { streams[name]!.sort() } }

    private mutating func made(_ event: Event, _ maker: Maker) {
        switch event.content {
        case .conversationCreated: Maker.add(maker, to: &creations[event.conversation, default: nil])
        case .messageSent(let message): Maker.add(maker, to: &makers[Name(conversation: event.conversation, message: message.id), default: nil])
        default: break
        }
    }

    /// Notes where an event goes that is not among the entries.
    mutating func add(_ event: Event, _ place: Int) {
        guard case .conversation = event.log else { return }
        made(event, Maker(place: place, isFailed: false))
        guard let (message, _) = event.piece else { return }
        let name = Name(conversation: event.conversation, message: message)
        lastPieces[name] = max(lastPieces[name] ?? 0, place)
    }

    func place(beforeWhatNeeds event: Event) -> Int {
        guard case .conversation = event.log else { return .max }
        switch event.content {
        case .conversationCreated: return firstIn[event.conversation] ?? .max
        case .messageSent(let message): return firstNeeding[Name(conversation: event.conversation, message: message.id)] ?? .max
        default:
            guard let (message, mark) = event.piece else { return .max }
            return streams[Name(conversation: event.conversation, message: message)]?.place(beforeAllAfter: mark) ?? .max
        }
    }

    func place(behindWhatIsNeededBy event: Event) -> Int {
        var place = 0
        if case .conversationCreated = event.content { return place }
        // A preference, too.
        if let creation = creations[event.conversation] ?? nil { place = creation.place }
        for message in event.neededMessages {
            if let maker = makers[Name(conversation: event.conversation, message: message)] ?? nil { place = max(place, maker.place) }
        }
        guard let (message, mark) = event.piece else { return place }
        let name = Name(conversation: event.conversation, message: message)
        return max(place, streams[name]?.place(behindAllBefore: mark) ?? 0, lastPieces[name] ?? 0)
    }
}

extension OutboxEntry {
    /// What it makes is there already, as something else.
    fileprivate var isTaken: Bool {
        guard case .failed(let code, _) = state else { return false }
        return [RefusalCode.messageConflict, .conversationConflict].contains { $0.rawValue == code } || state == Self.isErasedPerhaps
    }
}

extension Event {
    /// Of a streamed answer's piece, or its end: of which message it is, and where it comes in that.
    fileprivate var piece: (MessageID, UInt64)? {
        switch content {
        case .chunkAppended(let message, let index, _): (message, UInt64(index))
        case .messageCompleted(let message, _, _), .messageInterrupted(let message, _): (message, .max)
        default: nil
        }
    }
}
