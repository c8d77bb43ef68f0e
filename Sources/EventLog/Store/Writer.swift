/// Decides, numbers and encodes: the one place where a log's state moves. Under the store's writer lock: what each event touches is not checked for
/// exclusive use at run time besides.
final class Writer {
    @exclusivity(unchecked) private var conversations: [ConversationID: LogState] = [:]
    @exclusivity(unchecked) private var users: [UserID: LogState] = [:]
    /// The conversation that was looked up last: deciding an event asks for its own three times.
    @exclusivity(unchecked) private var latest: LogState?
    private let archive: Archive
    let reader: ArchiveReader
    private let tail: Tail
    private let ownReplica: ReplicaID
    @exclusivity(unchecked) private(set) var hlc: HLC
    @exclusivity(unchecked) private(set) var nextPosition: Position
    private var nextNumber: UInt64
    /// Counts the flushes, to tell which logs have not been used for a while.
    private var flushes = 0
    private var approximateBytes = 0
    /// Why nothing can be appended any more, if so.
    var failure: EventLogError?
    /// Whether accepted events are kept for whoever folds them.
    let collects: Bool
    @exclusivity(unchecked) private(set) var collected: [RecordedEvent] = []

    /// What this frame's submissions named under counters that were other events' before: such a refusal leaves no mark.
    private(set) var conflicts: Set<LaneCounter> = []

    struct LaneCounter: Hashable {
        var log: LogID
        var replica: ReplicaID
        var counter: UInt64
    }

    private let wallClock: @Sendable () -> UInt64
    /// When the frame being built was begun, in milliseconds: what one commit takes has one time.
    private var frameTime: UInt64 = 0

    init(archive: Archive, state: Archive.State, tail: Tail, store: StoreID, _ options: StoreOptions) {
        wallClock = options.wallClock ?? { WallClock.milliseconds() }
        collects = !options.folds.isEmpty || options.observer != nil
        self.archive = archive
        self.tail = tail
        ownReplica = ReplicaID(high: store.high, low: store.low)
        reader = ArchiveReader(archive: archive)
        hlc = HLC(rawValue: state.hlc)
        nextPosition = state.position + 1
        nextNumber = state.nextNumber
    }

    func advanceClock(by count: UInt64) {
        // The last values there are stay for events.
        if hlc.rawValue < .max >> 1 { hlc = HLC(rawValue: hlc.rawValue + count) }
    }

    // Logs.

    /// A log's state, if it is at hand. For readers, who may ask for every log there is, and whose asking must not keep them in memory: of one that is not
    /// at hand the archive holds everything.
    func known(_ log: LogID) -> LogState? {
        switch log {
        case .conversation(let id):
            if let latest, latest.conversation == id { return latest }
            guard let state = conversations[id] else { return nil }
            latest = state
            return state
        case .user(let user): return users[user]
        }
    }

    private func keep(_ state: LogState) {
        switch state.row.id {
        case .conversation(let id): conversations[id] = state
        case .user(let user): users[user] = state
        }
    }

    private func forget(_ log: LogID) {
        latest = nil
        switch log {
        case .conversation(let id): conversations[id] = nil
        case .user(let user): users[user] = nil
        }
    }

    /// A log's state, loaded from the archive if need be; `nil` if it has never been heard of.
    func state(of log: LogID) throws -> LogState? {
        if let known = known(log) {
            known.lastUse = flushes
            return known
        }
        guard let row = try archive.environment.read({ try archive.row(log, $0) }) else { return nil }
        let state = LogState(row: row, tailFirstSeq: row.seq + 1)
        state.lastUse = flushes
        keep(state)
        return state
    }

    /// A log's number, if it was ever heard of; keeps nothing in memory.
    func number(of log: LogID) throws -> UInt64? {
        try known(log)?.row.number ?? archive.environment.read { try archive.places(log, $0)?.number }
    }

    private func makeState(of log: LogID) throws -> LogState {
        if let known = try state(of: log) { return known }
        let state = LogState(row: LogRow(id: log, number: nextNumber), tailFirstSeq: 1)
        state.lastUse = flushes
        nextNumber += 1
        keep(state)
        return state
    }

    /// Folds what the journal holds beyond the archive, as the flush will.
    func replay(_ frame: TailFrame) throws {
        var others = frame.others[...]
        for index in 0...frame.items.count {
            while let other = others.first, other.before == index {
                others.removeFirst()
                if other.kind == TailFrame.Record.refusal {
                    let mark = try MarkRecord(decoding: frame.other(other.range))
                    let state = try makeState(of: mark.log)
                    state.row.take(mark)
                    state.lastMark = nextPosition
                } else if other.kind == TailFrame.Record.secret {
                    _ = try makeState(of: SecretRecord(decoding: frame.other(other.range)).log)
                }
            }
            guard index < frame.items.count else { break }
            let position = frame.firstPosition + Position(index)
            let envelope = try frame.envelope(index)
            let state = try makeState(of: envelope.log)
            guard envelope.seq == state.row.seq + 1 else {
                throw EventLogError(.damaged, "journal: position \(position) holds seq \(envelope.seq) of log \(envelope.log) after \(state.row.seq) (I2)")
            }
            state.apply(try Effect(envelope: envelope, body: BodyParts(body: frame.bodyBytes(index))), at: position)
            hlc = max(hlc, envelope.hlc)
            nextPosition = position + 1
        }
    }

    /// What a flush archived is no longer in the tail; logs that rest are forgotten.
    func archived(_ rows: [(log: LogID, seq: Seq)], through position: Position, memoryBytesMax: Int) {
        flushes += 1
        for (log, seq) in rows { known(log)?.dropTail(through: seq) }
        reader.forget()
        var total = 0
        for state in conversations.values { total += state.approximateBytes }
        for state in users.values { total += state.approximateBytes }
        guard total > memoryBytesMax else { return }
        let oldest = flushes - 2
        func stays(_ state: LogState) -> Bool {
            // What the archive does not know yet, an event or a mark, only memory can tell.
            !state.tail.isEmpty || state.lastMark > position || state.lastUse > oldest || state.row.seq == 0
        }
        latest = nil
        conversations = conversations.filter { stays($0.value) }
        users = users.filter { stays($0.value) }
    }

    /// The archive took in events past us, while nothing was in the tail.
    func adopted(_ logs: some Sequence<LogID>, _ state: Archive.State) {
        for log in logs { forget(log) }
        nextPosition = state.position + 1
        nextNumber = state.nextNumber
        hlc = max(hlc, HLC(rawValue: state.hlc))
    }

    /// Forgets decoded runs, as one was rewritten.
    func forgetRuns() { reader.forget() }

    // Deciding.

    /// The answer to one submission, before it is durable.
    enum Answer {
        case accepted(Receipt)
        case duplicate(Receipt)
        case refused(Refusal)
    }

    /// Decides one submission and, if it is accepted, encodes it into the frame.
    func take(_ submission: borrowing Submission, into frame: inout FrameBuilder) throws -> Answer {
        let decision: Decision
        do {
            decision = try decide(submission)
        } catch is NotInTailYet {
            show(frame)
            decision = try decide(submission)
        }
        switch decision {
        case .refuse(let refusal):
            if let origin = submission.origin, origin.counter > 0 {
                if refusal.code == .originConflict {
                    conflicts.insert(LaneCounter(log: submission.event.log, replica: origin.replica, counter: origin.counter))
                } else {
                    try mark(submission.event.log, origin, .refused(refusal), &frame)
                }
            }
            return .refused(refusal)
        case .duplicate(let seq):
            let receipt: Receipt
            do {
                receipt = try knownReceipt(of: submission, at: seq) ?? self.receipt(of: submission.event.log, seq)
            } catch is NotInTailYet {
                show(frame)
                receipt = try self.receipt(of: submission.event.log, seq)
            } catch let error as EventLogError where error.code == .damaged && submission.leavesDamage {
                // A stranger's event is none of those that stand there: when that was is not theirs to know, and that there is something would be told.
                guard try isStranger(submission.event) else { throw error }
                receipt = Receipt(seq: seq, position: 0, hlc: HLC(rawValue: 0), isDurable: true)
            }
            // Behind what has to be read: what cannot be told leaves no mark.
            if let origin = submission.origin { try mark(submission.event.log, origin, Self.mayComeAgain(submission.event) ? .duplicate(seq) : nil, &frame) }
            return .duplicate(receipt)
        case .accept(let target):
            let state = try makeState(of: submission.event.log)
            hlc = hlc.next(wallMilliseconds: frameTime)
            let origin: Origin
            if let given = submission.origin {
                origin = given
            } else {
                let lane = state.row.mark(of: ownReplica)
                // Someone used this store's name, and the last counter there is.
                guard lane < .max else { return .refused(Refusal(.originConflict, "no counter is left")) }
                origin = Origin(replica: ownReplica, counter: lane + 1, hlc: hlc)
            }
            let receipt = append(submission.event, submission.newer, target, origin, hlc, state, &frame)
            noteTwin(submission, receipt)
            return .accepted(receipt)
        }
    }

    private func append(
        _ event: Event, _ newer: NewerFields?, _ target: Seq, _ origin: Origin, _ hlc: HLC, _ state: LogState, _ frame: inout FrameBuilder,
        erased commitment: Hash256? = nil
    ) -> Receipt {
        let seq = state.row.seq + 1
        let position = nextPosition
        var references = event.references
        if let newer, event.content.kind == nil { references = (newer.message, newer.chunkIndex, newer.replyTo) }
        frame.put(
            Envelope(
                log: state.row.id, seq: seq, origin: origin, hlc: hlc, author: event.author, kind: event.kindNumber, message: references.message,
                chunkIndex: references.chunkIndex, targetSeq: target, replyTo: references.replyTo, extra: newer?.envelope ?? []), event, newer,
            erased: commitment)
        state.apply(Effect(seq: seq, event: event, targetSeq: target, replica: origin.replica, counter: origin.counter), at: position)
        if collects {
            collected.append(
                RecordedEvent(
                    log: state.row.id, seq: seq, position: position, origin: origin, hlc: hlc, event: event, targetSeq: target == 0 ? nil : target,
                    isErased: commitment != nil, commitment: commitment, newer: newer))
        }
        nextPosition += 1
        return Receipt(seq: seq, position: position, hlc: hlc, isDurable: true)
    }

    private func mark(_ log: LogID, _ origin: Origin, _ answer: LogRow.Answer?, _ frame: inout FrameBuilder) throws {
        let state = try makeState(of: log)
        if let lane = state.row.lane(origin.replica), state.row.lanes[lane].mark >= origin.counter { return }
        let record = MarkRecord(log: log, replica: origin.replica, counter: origin.counter, answer: answer)
        state.row.take(record)
        state.lastMark = nextPosition
        frame.put(record)
    }

    /// The event that a replica made as its how-many-eth of this log. Reads the log behind `known`, up to which it is not: under the writer's lock, so
    /// who lets peers ask looks it up before (`SubmissionLookup`).
    func find(_ origin: Origin, in state: LogState, after known: Seq = 0) throws -> RecordedEvent? {
        var first: Seq = 1
        // The same one again, as from a peer that repeats itself, is found at once.
        if let cursor = state.originCursor, cursor.replica == origin.replica, cursor.counter <= origin.counter {
            first = cursor.counter == origin.counter ? max(cursor.seq, 1) : cursor.seq + 1
        }
        var seq = max(first, known + 1)
        // A later counter may lie among the events that were skipped.
        let sawAll = seq == first
        try refresh(state)
        search: while seq <= state.row.seq {
            if seq < state.tailFirstSeq, let (run, place) = try reader.place(of: seq, in: state.row) {
                let item = run.events[place]
                if run.replicas[Int(item.replica)] == origin.replica {
                    if item.counter == origin.counter {
                        state.originCursor = (origin.replica, origin.counter, seq)
                        return try run.recorded(at: place)
                    }
                    if item.counter > origin.counter { break search }
                }
            } else if let envelope = try tailEnvelope(of: seq, in: state), envelope.origin.replica == origin.replica {
                if envelope.origin.counter == origin.counter {
                    state.originCursor = (origin.replica, origin.counter, seq)
                    return try self.event(of: state, at: seq)
                }
                if envelope.origin.counter > origin.counter { break search }
            }
            seq += 1
        }
        // Counters of a lane ascend with seq, so a later one that is asked for next lies from here on: a file of which most was recorded under other
        // origins asks for thousands that are absent.
        if sawAll { state.originCursor = (origin.replica, origin.counter, seq - 1) }
        return nil
    }

    func tailEnvelope(of seq: Seq, in state: LogState) throws -> Envelope? {
        guard let position = state.position(of: seq), let (frame, index) = try located(position) else { return nil }
        return try frame.envelope(index)
    }

    private struct NotInTailYet: Error {}

    /// What the frame being built held when it was last asked for: what came since the time before, each time.
    private var building: [TailFrame] = []
    /// The first position of the frame being built.
    private(set) var frameStart: Position = 1
    /// What it has that may come again under another origin.
    var frameTwins: [TwinKey: Receipt] = [:]
    /// The same of what came in the frames before it, as far as it was looked for since.
    var earlierTwins: [LogID: EarlierTwins] = [:]

    /// Where the chunks stand of streams of which one was repeated in this frame, and how many events were looked at for that.
    var chunkSeqs: [ChunkSeqs.Stream: ChunkSeqs] = [:]
    var chunkEventsRead = 0

    /// By their times, where they stand; and what they are, of the times that were asked for.
    struct EarlierTwins {
        var after: Seq
        var places: [HLC: [Place]] = [:]
        var keys: [HLC: [TwinKey: [Place]]] = [:]

        init(after seq: Seq) { after = seq }
    }

    /// Where an event stands.
    struct Place {
        var seq: Seq
        var position: Position
    }

    /// Says that a new frame begins with the next event, and about how many will come.
    func beginFrame(events: Int) {
        if !building.isEmpty { building = [] }
        if chunkEventsRead > 0 { (chunkSeqs, chunkEventsRead) = ([:], 0) }
        if !conflicts.isEmpty { conflicts = [] }
        if !frameTwins.isEmpty { frameTwins = [:] }
        if !earlierTwins.isEmpty { earlierTwins = [:] }
        if collects, collected.capacity < events { collected.reserveCapacity(events) }
        frameStart = nextPosition
        frameTime = wallClock()
    }

    /// Lets itself read what the frame being built has by now.
    private func show(_ frame: borrowing FrameBuilder) {
        let first = building.last.map { $0.lastPosition + 1 } ?? frameStart
        if first < nextPosition { building.append(frame.tailPiece(from: Int(first - frameStart), firstPosition: first)) }
    }

    private func located(_ position: Position) throws -> (TailFrame, Int)? {
        guard position >= frameStart else { return tail.snapshot.frame(of: position) }
        var (low, high) = (0, building.count)
        while low < high {
            let middle = (low + high) / 2
            if building[middle].firstPosition <= position { low = middle + 1 } else { high = middle }
        }
        if low > 0, position <= building[low - 1].lastPosition { return (building[low - 1], Int(position - building[low - 1].firstPosition)) }
        // Whoever asks between two commits finds the last frame where all others are.
        guard let found = tail.snapshot.frame(of: position) else { throw NotInTailYet() }
        return found
    }

    /// Makes the row name all slices that the archive holds by now.
    func refresh(_ state: LogState) throws {
        guard state.hasStaleSlices else { return }
        if let places = try archive.environment.read({ try archive.places(state.row.id, $0) }) { state.row.slices = places.slices }
        state.hasStaleSlices = false
    }

    /// Whether its author never took part in its conversation.
    private func isStranger(_ event: Event) throws -> Bool {
        guard let state = try state(of: .conversation(event.conversation)), let person = state.person(event.author) else { return true }
        return !state.row.people[person].hasTakenPart
    }

    /// Where an event was recorded.
    private func receipt(of log: LogID, _ seq: Seq) throws -> Receipt {
        guard let state = try state(of: log), seq > 0 else { return Receipt(seq: seq, position: 0, hlc: HLC(rawValue: 0), isDurable: true) }
        guard let recorded = try self.event(of: state, at: seq) else {
            return Receipt(seq: seq, position: state.position(of: seq) ?? 0, hlc: hlc, isDurable: true)
        }
        return Receipt(seq: seq, position: recorded.position, hlc: recorded.hlc, isDurable: true)
    }

    /// Takes an event as another store recorded it, for `import --exact`: nothing is decided, only density is checked (I2).
    func adopt(_ recorded: RecordedEvent, secret: PuncturedSeeds?, key: Hash256, into frame: inout FrameBuilder) throws -> (Receipt, number: UInt64) {
        guard recorded.isErased == (recorded.commitment != nil) else {
            throw EventLogError(.invalidArgument, "log \(recorded.log) seq \(recorded.seq): an erased event comes with the commitment to its body")
        }
        // Before a new log gets a number: the flush numbers only what the journal tells of.
        let last = try state(of: recorded.log)?.row.seq ?? 0
        guard recorded.seq == last + 1 else {
            throw EventLogError(.invalidArgument, "log \(recorded.log): seq \(recorded.seq) cannot follow \(last) (I2)")
        }
        let state = try makeState(of: recorded.log)
        if let secret {
            let wrapped = try Wrapping.wrap(secret.encoded, key: key, for: "log \(recorded.log)")
            frame.put(SecretRecord(log: recorded.log, wrapped: wrapped))
        }
        hlc = max(hlc, recorded.hlc)
        return (
            append(recorded.event, recorded.newer, recorded.targetSeq ?? 0, recorded.origin, recorded.hlc, state, &frame, erased: recorded.commitment),
            state.row.number
        )
    }

    /// Gives the events accepted since it was last asked, in commit order, for an empty array whose memory is used for the next.
    func takeCollected(_ events: inout [RecordedEvent]) { swap(&events, &collected) }

    // Undoing a batch.

    /// What must be put back if an atomic batch is refused.
    struct Checkpoint {
        fileprivate var hlc: HLC
        fileprivate var nextPosition: Position
        fileprivate var nextNumber: UInt64
        fileprivate var frame: FrameBuilder.Mark
        fileprivate var collected: Int
        fileprivate var saved: [LogID: LogState.Saved?]
        fileprivate var frameTwins: [TwinKey: Receipt]
    }

    func checkpoint(_ submissions: [Submission], _ frame: borrowing FrameBuilder) throws -> Checkpoint {
        var saved: [LogID: LogState.Saved?] = [:]
        for submission in submissions {
            for log in [submission.event.log, .conversation(submission.event.conversation)] where saved[log] == nil {
                saved[log] = .some(try state(of: log)?.saved)
            }
        }
        return Checkpoint(
            hlc: hlc, nextPosition: nextPosition, nextNumber: nextNumber, frame: frame.mark, collected: collected.count, saved: saved, frameTwins: frameTwins)
    }

    func restore(_ checkpoint: Checkpoint, _ frame: inout FrameBuilder) {
        (building, chunkSeqs) = ([], [:])
        frameTwins = checkpoint.frameTwins
        hlc = checkpoint.hlc
        nextPosition = checkpoint.nextPosition
        nextNumber = checkpoint.nextNumber
        frame.reset(to: checkpoint.frame)
        collected.removeLast(collected.count - checkpoint.collected)
        for (log, saved) in checkpoint.saved {
            if let saved {
                known(log)?.restore(saved)
            } else {
                forget(log)
            }
        }
    }
}

extension Writer: Past {
    func messageIDs(of row: LogRow) throws -> Set<MessageID> { try reader.messageIDs(of: row) }

    func forEachEffect(of row: LogRow, _ body: (Effect) throws -> Void) throws {
        for slice in row.slices {
            let run = try reader.run(at: slice.run)
            guard slice.index < run.slices.count, run.slices[slice.index].log == row.id else {
                throw Archive.damaged(archive.path, "the row of log \(row.id) and the run at position \(slice.run) disagree")
            }
            for place in run.slices[slice.index].range { try body(run.effect(at: place)) }
        }
    }

    func event(of state: LogState, at seq: Seq) throws -> RecordedEvent? {
        if let position = state.position(of: seq) {
            guard let (frame, index) = try located(position) else { return nil }
            return try frame.recorded(index)
        }
        try refresh(state)
        guard let (run, place) = try reader.place(of: seq, in: state.row) else { return nil }
        return try run.recorded(at: place)
    }
}
