/// A log as the writer sees it: the row that runs ahead of the archive, and what is known of its messages.
///
/// Owned by the writer; touched by no other thread. What it holds is unchecked at run time: nothing that it calls while it changes a property comes back
/// to it, and the checks cost a fifteenth of a commit.
final class LogState {
    struct Message {
        var seq: Seq
        /// Index into the row's people.
        var author: Int32
        var chunks: UInt32 = 0
        var joinedBytes: Int = 0
        var isStreaming: Bool
        var closed: Closed = .open
        var closedSeq: Seq = 0
        /// 0: not deleted.
        var deletedSeq: Seq = 0
    }

    enum Closed: UInt8 { case open, completed, interrupted }

    /// Whose log it is; `nil` for a user's own.
    let conversation: ConversationID?
    @exclusivity(unchecked) var row: LogRow
    /// Messages since the log was loaded and all open streams; all messages once `isComplete`.
    @exclusivity(unchecked) private(set) var messages: [MessageID: Message] = [:]
    @exclusivity(unchecked) private(set) var isComplete: Bool
    /// Ids of archived messages that are not in `messages`; `nil` until first asked for.
    private var archivedIDs: Set<MessageID>?
    /// The positions of the events that the archive does not hold yet.
    @exclusivity(unchecked) var tail: [Position] = []
    @exclusivity(unchecked) var tailFirstSeq: Seq
    /// Whether a flush wrote slices that the row does not name yet.
    var hasStaleSlices = false
    /// The flush during which it was used last.
    @exclusivity(unchecked) var lastUse = 0
    /// The position of the event after the last mark: once the archive holds it, it holds the mark too.
    var lastMark: Position = 0
    /// Where the search for a repeated origin goes on: re-imports come in order.
    var originCursor: (replica: ReplicaID, counter: UInt64, seq: Seq)?

    init(row: LogRow, tailFirstSeq: Seq) {
        if case .conversation(let id) = row.id { conversation = id } else { conversation = nil }
        self.row = row
        self.tailFirstSeq = tailFirstSeq
        isComplete = row.messages == 0
        for stream in row.open {
            messages[stream.message] = Message(
                seq: stream.seq, author: Int32(stream.author), chunks: stream.chunks, joinedBytes: stream.joinedBytes, isStreaming: true)
        }
    }

    /// A copy to go back to when an atomic batch is refused.
    struct Saved {
        fileprivate var row: LogRow
        fileprivate var messages: [MessageID: Message]
        fileprivate var isComplete: Bool
        fileprivate var archivedIDs: Set<MessageID>?
        fileprivate var overlay: [MessageID: [Effect]]
        fileprivate var tailCount: Int
    }

    var saved: Saved {
        Saved(row: row, messages: messages, isComplete: isComplete, archivedIDs: archivedIDs, overlay: overlay, tailCount: tail.count)
    }

    func restore(_ saved: Saved) {
        row = saved.row
        messages = saved.messages
        isComplete = saved.isComplete
        archivedIDs = saved.archivedIDs
        overlay = saved.overlay
        tail.removeLast(tail.count - saved.tailCount)
        // It may speak of seqs that others get now.
        originCursor = nil
    }

    /// About the memory that it takes: what a dictionary or a set leaves free, and the heads of its arrays, included.
    var approximateBytes: Int {
        900 + messages.count * 128 + (archivedIDs?.count ?? 0) * 32 + row.people.count * 80 + row.slices.count * 40 + tail.count * 8
    }

    /// The place of a user among the row's people.
    func person(_ user: UserID) -> Int? { LogRow.person(user, row.people, row.index) }

    func position(of seq: Seq) -> Position? {
        guard seq >= tailFirstSeq, seq - tailFirstSeq < UInt64(tail.count) else { return nil }
        return tail[Int(seq - tailFirstSeq)]
    }

    /// Forgets the positions of events that the archive holds now.
    func dropTail(through seq: Seq) {
        guard seq >= tailFirstSeq else { return }
        let count = min(tail.count, Int(seq - tailFirstSeq) + 1)
        guard count > 0 else { return }
        tail.removeFirst(count)
        hasStaleSlices = true
        tailFirstSeq += Seq(count)
    }

    /// What is known of a message; asks the past only if it must.
    func message(_ id: MessageID, _ past: some Past) throws -> Message? {
        if let found = messages[id] { return found }
        if isComplete { return nil }
        if archivedIDs == nil { archivedIDs = try past.messageIDs(of: row) }
        guard archivedIDs!.contains(id) else { return nil }
        // Rare enough (a receipt, an edit or a reaction to an older message) to learn all at once.
        var learned: [MessageID: Message] = [:]
        try past.forEachEffect(of: row) { Self.fold($0, row: row, into: &learned) }
        for (id, message) in learned where messages[id] == nil { messages[id] = message }
        // What happened to archived messages since the log was loaded.
        for (id, change) in overlay { Self.merge(change.filter { $0.seq > row.archivedSeq }, id, into: &messages) }
        overlay = [:]
        isComplete = true
        archivedIDs = nil
        return messages[id]
    }

    /// Changes to messages that were not known when they happened; only replay makes them, as acceptance looks first.
    private var overlay: [MessageID: [Effect]] = [:]

    private static func merge(_ effects: [Effect], _ id: MessageID, into messages: inout [MessageID: Message]) {
        for effect in effects { update(id, in: &messages, effect) }
    }

    private static func fold(_ effect: Effect, row: LogRow, into messages: inout [MessageID: Message]) {
        guard let id = effect.message else { return }
        if effect.kind == Event.Kind.messageSent.rawValue {
            messages[id] = Message(
                seq: effect.seq, author: Int32(row.person(effect.author) ?? 0), joinedBytes: effect.textBytes, isStreaming: effect.isStreaming)
        } else {
            update(id, in: &messages, effect)
        }
    }

    /// Says whether there is such a message.
    @discardableResult
    private static func update(_ id: MessageID, in messages: inout [MessageID: Message], _ effect: Effect) -> Bool {
        guard let place = messages.index(forKey: id) else { return false }
        update(&messages.values[place], effect)
        return true
    }

    private static func update(_ message: inout Message, _ effect: Effect) {
        switch Event.Kind(rawValue: effect.kind) {
        case .chunkAppended:
            message.chunks += 1
            message.joinedBytes += effect.textBytes
        case .messageCompleted:
            message.closed = .completed
            message.closedSeq = effect.seq
        case .messageInterrupted:
            message.closed = .interrupted
            message.closedSeq = effect.seq
        case .messageDeleted:
            if message.deletedSeq == 0 { message.deletedSeq = effect.seq }
        default: break
        }
    }

    /// Folds an accepted event that stands at a position of the journal.
    func apply(_ effect: Effect, at position: Position) {
        row.apply(effect)
        tail.append(position)
        guard let id = effect.message else { return }
        switch Event.Kind(rawValue: effect.kind) {
        case .messageSent:
            messages[id] = Message(
                seq: effect.seq, author: Int32(row.addPerson(effect.author)), joinedBytes: effect.textBytes, isStreaming: effect.isStreaming)
        case .chunkAppended, .messageCompleted, .messageInterrupted, .messageDeleted:
            if !Self.update(id, in: &messages, effect), !isComplete { overlay[id, default: []].append(effect) }
        default: break
        }
    }
}

/// What acceptance may have to read of a log's past: the archive and the journal's memory behind one door.
protocol Past {
    /// The ids of the messages in the row's archived slices.
    func messageIDs(of row: LogRow) throws -> Set<MessageID>
    /// The effects of the row's archived events, in order.
    func forEachEffect(of row: LogRow, _ body: (Effect) throws -> Void) throws
    /// An event of the log, archived or not.
    func event(of state: LogState, at seq: Seq) throws -> RecordedEvent?
    /// Where a chunk of the message at a seq was recorded; `nil`: it was not, or that takes too long to find.
    func chunkSeq(of state: LogState, target: Seq, index: UInt32) throws -> Seq?
}
