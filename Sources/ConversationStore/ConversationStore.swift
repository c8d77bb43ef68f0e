@_exported public import EventLog
@_exported public import Projections

/// A store of conversations: append events, read what a chat screen shows, and observe it.
///
/// Safe to use from any thread or task. One process opens a store for writing; others may read beside it.
///
/// ```swift
/// let store = try ConversationStore.open(at: "chats.store")
/// let chat = try await store.createConversation(.assistant, title: "Hello", author: ada, participants: [bot])
/// try await store.send("What is LMDB?", to: chat, from: ada)
/// let answer = try await store.startMessage(in: chat, from: bot)
/// for try await delta in model { try await answer.append(delta) }
/// try await answer.complete()
/// let page = try store.timeline(of: chat)
/// ```
public final class ConversationStore: Sendable {
    /// The event log under it: replay, heads, proofs, export.
    public let log: EventStore
    public let options: ConversationStoreOptions
    let conversations: ProjectionFold<Conversations>
    private let custom: [ObjectIdentifier: any EventFold]
    private let folds: [any ComparableFold]
    let changes: ChangeHub
    let liveStreams = LiveStreams()
    let overlays: Overlays

    /// Opens a store, or creates it where the options say so, and brings its projections up to date.
    ///
    /// - Throws: `EventLogError`, as `EventStore.open`; `projectionMissing` if a projection must be rebuilt and the store is only read.
    public static func open(at path: String, options: ConversationStoreOptions = ConversationStoreOptions()) throws -> ConversationStore {
        let store = try ConversationStore(path, options)
        guard let patience = options.endAbandonedStreamsAfter, options.access != .readOnly else { return store }
        do {
            try store.endAbandonedStreams(after: patience)
        } catch {
            // Not handed out: nobody else could close it.
            try? store.close()
            throw error
        }
        return store
    }

    private init(_ path: String, _ options: ConversationStoreOptions) throws {
        let overlays = Overlays()
        let cacheShare = Double(max(0, options.cacheBytes)) / Double(ConversationStoreOptions.cacheBytesUsual)
        let conversations = ProjectionFold<Conversations>(
            cacheShare: cacheShare, folded: FoldListener(isListening: { overlays.isListening }, told: { overlays.folded($0) }),
            installed: { overlays.forget() })
        let changes = ChangeHub()
        var custom: [ObjectIdentifier: any EventFold] = [:]
        var folds: [any ComparableFold] = [conversations]
        for type in options.projections {
            let fold = Self.fold(type, cacheShare)
            custom[ObjectIdentifier(type)] = fold
            folds.append(fold)
        }
        for fold in folds where fold.name.isEmpty || fold.name.utf8.count > 64 || !fold.name.utf8.allSatisfy(Self.isPartOfName) {
            throw EventLogError(.invalidArgument, "\"\(fold.name)\" is no projection's name: 1 to 64 ASCII letters, digits, - and . are")
        }
        guard Set(folds.map(\.name)).count == folds.count else {
            throw EventLogError(.invalidArgument, "two projections have the same name: \(folds.map(\.name).sorted().joined(separator: ", "))")
        }
        var log = options.log
        log.folds = folds
        log.foldProgress = options.rebuildProgress
        log.observer = { changes.committed($0) }
        self.options = options
        self.conversations = conversations
        self.custom = custom
        self.folds = folds
        self.changes = changes
        self.overlays = overlays
        self.log = try EventStore.open(at: path, options: log)
        changes.participants = { [conversations, weak log = self.log] id in
            guard let log else { return nil }
            return try? conversations.read(in: log) { try $0.participants(of: id) }
        }
    }

    private static func isPartOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
            UInt8(ascii: "."):
            true
        default: false
        }
    }

    /// Has events that have just become durable told to somebody else too, in commit order, by the thread that committed them; none, when a relaxed
    /// store's sync showed what was told of before. To be set before the first commit that matters.
    package func tap(_ body: @escaping @Sendable ([RecordedEvent]) -> Void) { changes.tap = body }

    private static func fold<P: Projection>(_ type: P.Type, _ cacheShare: Double) -> any ComparableFold {
        ProjectionFold<P>(cacheShare: cacheShare)
    }

    /// Ends the store: what waits is committed, streams' deltas too, memory is archived, observers end. Streams that are still open stay so.
    /// Idempotent.
    public func close() throws {
        changes.finish()
        var failure: (any Error)?
        for stream in liveStreams.close() {
            do {
                _ = try log.appendBlocking(stream.takeRest())
            } catch {
                failure = error
            }
        }
        try log.close()
        if let failure { throw failure }
    }

    /// As `EventStore.abandon`.
    package func abandon() {
        changes.finish()
        _ = liveStreams.close()
        log.abandon()
    }

    // Appending.

    /// Appends one event. A repeat of what was recorded answers with where that was.
    ///
    /// - Throws: `Refusal` with the code of the rule that it breaks; `EventLogError` as `EventStore.append`.
    @discardableResult
    public func append(_ event: Event, origin: Origin? = nil) async throws -> Receipt {
        try Self.receipt(try await log.append([Submission(event, origin: origin)])[0])
    }

    /// Appends events, over any conversations, each decided for itself; or all of them or none, if atomic.
    @discardableResult
    public func append(_ submissions: [Submission], isAtomic: Bool = false) async throws -> [AppendOutcome] {
        try await log.append(submissions, isAtomic: isAtomic)
    }

    static func receipt(_ outcome: AppendOutcome) throws -> Receipt {
        switch outcome {
        case .accepted(let receipt), .duplicate(let receipt): return receipt
        case .refused(let refusal): throw refusal
        case .withdrawn: throw Refusal(.malformed, "another event of the batch was refused")
        case .undecided(let text): throw EventLogError(.damaged, text)
        }
    }

    /// Creates a conversation; its author takes part in it.
    @discardableResult
    public func createConversation(
        _ kind: Event.ConversationKind, id: ConversationID = .random(), title: String? = nil, author: UserID, participants: [UserID] = []
    ) async throws -> ConversationID {
        try await append(Event(conversation: id, author: author, content: .conversationCreated(kind: kind, title: title, participants: participants)))
        return id
    }

    /// Sends a whole message.
    @discardableResult
    public func send(
        _ text: String, to conversation: ConversationID, from author: UserID, role: Event.Role = .user, id: MessageID = .random(), replyTo: MessageID? = nil
    ) async throws -> MessageID {
        let message = Event.Message(id: id, role: role, text: text, replyTo: replyTo)
        try await append(Event(conversation: conversation, author: author, content: .messageSent(message)))
        return id
    }

    // Reading. Never waits for a commit, a sync or a flush (I8).

    func view<R>(_ body: (Conversations) throws -> R) throws -> R {
        try log.checkOpen()
        return try conversations.read(in: log, body)
    }

    /// Lends what is shown of a conversation: a replica's own pending events lie over what is confirmed.
    func view<R>(of conversation: ConversationID, _ body: (Conversations) throws -> R) throws -> R {
        try view { [overlays] confirmed in try body(overlays.isEmpty ? confirmed : overlays.state(of: conversation, over: confirmed)) }
    }

    /// A page of a conversation's messages, ascending; `nil` if there is no such conversation.
    public func timeline(of conversation: ConversationID, _ range: TimelineRange = .newest, limit: Int = 50) throws -> TimelinePage? {
        try view(of: conversation) { try $0.timeline(conversation, range, limit: limit) }
    }

    /// A page of a user's conversations, newest first.
    public func lobby(of user: UserID, after cursor: LobbyCursor? = nil, limit: Int = 50) throws -> LobbyPage {
        try view { [overlays] in try $0.lobby(of: user, after: cursor, limit: limit, under: overlays) }
    }

    /// One conversation as it stands in a user's lobby; `nil` if the user does not take part.
    public func lobbyRow(of conversation: ConversationID, for user: UserID) throws -> LobbyRow? {
        try view(of: conversation) { try $0.lobbyRow(conversation, user) }
    }

    /// The message that was sent at a seq; `nil` if none was.
    public func message(in conversation: ConversationID, at seq: Seq) throws -> Message? {
        try view(of: conversation) { try $0.message(conversation, at: seq)?.message }
    }

    /// The message that was sent at a seq, and how far each participant has got, as of the same moment.
    public func messageAndReceipts(in conversation: ConversationID, at seq: Seq) throws -> (message: Message, receipts: Receipts)? {
        try view(of: conversation) { try $0.message(conversation, at: seq) }
    }

    /// A message by its id. It is looked for from the newest on: where the seq is known, ask by that.
    public func message(in conversation: ConversationID, id: MessageID) throws -> Message? {
        try view(of: conversation) { try $0.message(conversation, id)?.message }
    }

    /// The same without what lies over what is confirmed: a replica's own pending events, and newest parts of conversations.
    package func confirmedMessage(in conversation: ConversationID, id: MessageID) throws -> Message? {
        try view { try $0.message(conversation, id)?.message }
    }

    /// Who takes part in a conversation now, ascending; empty if there is no such conversation.
    public func participants(of conversation: ConversationID) throws -> [UserID] {
        try conversations.read(in: log) { [overlays] in try overlays.state(of: conversation, over: $0).participants(of: conversation) }
    }

    /// How far each participant has got; `nil` if there is no such conversation.
    public func receipts(of conversation: ConversationID) throws -> Receipts? { try view(of: conversation) { try $0.receipts(conversation) } }

    /// The newest whole messages within a budget of tokens less a reserve for the answer, and always the system message; `nil` if there is no such
    /// conversation. The default counter is an estimate.
    public func contextWindow(
        of conversation: ConversationID, budget: Int, reserve: Int = 0, counter: some TokenCounter = FourCharacterEstimate()
    ) throws -> ContextWindow? {
        if counter is FourCharacterEstimate, budget <= Conversations.estimatedBudgetMax {
            return try view(of: conversation) { try $0.estimatedWindow(conversation, budget: budget, reserve: reserve) }
        }
        // The counter is the caller's, and may be slow: it runs while nothing is lent.
        let found = try view(of: conversation) { (try $0.systemMessage(conversation), try $0.windowPart(conversation, before: .max, count: 32)) }
        guard let first = found.1 else { return nil }
        return try ContextWindow(system: found.0, first: first, budget: budget, reserve: reserve, counter: counter) { seq, count in
            try view(of: conversation) { try $0.windowPart(conversation, before: seq, count: count) }
        }
    }

    /// Lends the state of one of the application's own projections. The closure may read the store; commits wait meanwhile: keep it short.
    public func read<P: Projection, R>(_ projection: P.Type, _ body: (P) throws -> R) throws -> R {
        guard let fold = custom[ObjectIdentifier(projection)] as? ProjectionFold<P> else {
            throw EventLogError(.invalidArgument, "the projection \(P.name) was not named when the store was opened")
        }
        try log.checkOpen()
        return try fold.readNesting(in: log, body)
    }

    // Maintenance.

    /// The names of the store's projections: `conversations` and the application's own.
    public var projectionNames: [String] { log.foldNames }

    /// Builds a projection anew from the log, beside the one that is shown, and swaps it in whole. Appends and reads go on. Throw from `progress` to
    /// interrupt it: a later rebuild goes on where it stopped.
    public func rebuild(_ projection: String = "conversations", progress: ((_ done: UInt64, _ total: UInt64) throws -> Void)? = nil) throws {
        try log.rebuild(projection, progress: progress)
    }

    /// SHA-256 of a projection's whole state as it is now: the same for the same events, however they came in. Reads every row, some second's work for a
    /// million events, beside appends and reads.
    public func digest(of projection: String = "conversations") throws -> [UInt8] { try named(projection).digest(in: log).digest }

    /// Folds the log anew, on the side, and says whether a projection shows just that (I4). Appends and reads go on: what is compared is the state as of now.
    public func isFold(_ projection: String = "conversations", progress: ((_ done: UInt64, _ total: UInt64) throws -> Void)? = nil) throws -> Bool {
        let fold = try named(projection)
        func isFold() throws -> Bool {
            let (shown, position) = try fold.digest(in: log)
            return try fold.digestAnew(of: log, through: position, progress: progress) == shown
        }
        // What is erased between the two is in one and not in the other: that does not happen twice.
        return try isFold() || isFold()
    }

    private func named(_ projection: String) throws -> any ComparableFold {
        guard let fold = folds.first(where: { $0.name == projection }) else {
            throw EventLogError(.invalidArgument, "there is no projection \(projection); there are \(projectionNames.joined(separator: ", "))")
        }
        return fold
    }
}

/// How a conversation store is opened.
public struct ConversationStoreOptions: Sendable {
    public var access: StoreOptions.Access
    public var durability: Durability
    /// Bytes of journal kept before the archive must take them: bounds reopening and memory.
    public var journalBytesMax: Int
    /// Submissions that may wait at once; a further caller waits for room.
    public var queueDepthMax: Int
    /// The most that the archive's map may grow to, in bytes; `nil`: as large as the disk.
    public var mapBytesMax: Int?
    /// About how much memory may be spent on what is kept only because it may be asked for again, in bytes: a third on states of logs, the rest on
    /// rows of projections. Less of it costs reads of what was not used lately.
    public var cacheBytes: Int
    /// Ends streams that this store began in an earlier process and of which nothing was heard for so long, as interrupted with the reason
    /// `abandoned`. Only for the store that assigns seq.
    public var endAbandonedStreamsAfter: Duration?
    /// The application's own projections.
    public var projections: [any Projection.Type]
    /// Told how far opening has got, when it must fold the log anew.
    public var rebuildProgress: (@Sendable (_ done: UInt64, _ total: UInt64) throws -> Void)?
    /// As `StoreOptions`: no threads, clocks of one's own, and the file `sync` that a store is made with.
    package var runsInline = false
    package var wallClock: (@Sendable () -> UInt64)?
    package var uptime: (@Sendable () -> Duration)?
    package var side: [SideStore.TableName: [SideStore.Record]]?

    /// 96 MiB. With it each table of a projection keeps as many bytes as it asks for.
    public static let cacheBytesUsual = 96 << 20

    public init(
        access: StoreOptions.Access = .readWrite, durability: Durability = .full, journalBytesMax: Int = 32 << 20, queueDepthMax: Int = 65_536,
        mapBytesMax: Int? = nil, cacheBytes: Int = Self.cacheBytesUsual, endAbandonedStreamsAfter: Duration? = nil, projections: [any Projection.Type] = [],
        rebuildProgress: (@Sendable (_ done: UInt64, _ total: UInt64) throws -> Void)? = nil
    ) {
        self.access = access
        self.durability = durability
        self.journalBytesMax = journalBytesMax
        self.queueDepthMax = queueDepthMax
        self.mapBytesMax = mapBytesMax
        self.cacheBytes = cacheBytes
        self.endAbandonedStreamsAfter = endAbandonedStreamsAfter
        self.projections = projections
        self.rebuildProgress = rebuildProgress
    }
}

extension ConversationStoreOptions {
    /// Those of the log, without its folds.
    package var log: StoreOptions {
        var log = StoreOptions(
            access: access, durability: durability, journalBytesMax: journalBytesMax, queueDepthMax: queueDepthMax, mapBytesMax: mapBytesMax,
            cacheBytes: cacheBytes / 3)
        log.runsInline = runsInline
        log.wallClock = wallClock
        log.uptime = uptime
        log.side = side
        return log
    }
}
