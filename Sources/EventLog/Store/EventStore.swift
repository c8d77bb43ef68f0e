internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A store of conversations' events: appends them durably, keeps them small, gives them back in order, and proves them unaltered.
///
/// Safe to use from any thread or task. One process opens a store for writing; others may read beside it.
///
/// ```swift
/// let store = try EventStore.open(at: "chats.store")
/// let outcomes = try await store.append([Submission(event)])
/// try store.replay { recorded in print(recorded.seq); return true }
/// try store.close()
/// ```
public final class EventStore: Sendable {
    struct Request {
        enum Reply {
            /// By whoever committed it, who is not to be held up.
            case call(@Sendable (Result<[AppendOutcome], any Error>) -> Void)
            case box(ReplyBox)
        }
        enum Work {
            case submissions([Submission], isAtomic: Bool)
            case adoption([RecordedEvent], secrets: [LogID: PuncturedSeeds])
        }
        var work: Work
        var reply: Reply

        var count: Int {
            switch work {
            case .submissions(let submissions, _): submissions.count
            case .adoption(let events, _): events.count
            }
        }

        /// Whether readers see all of it or nothing.
        var isAtomic: Bool { if case .submissions(_, false) = work { false } else { true } }
    }

    /// Where a waiting thread finds its answer. `@unchecked Sendable`: touched only with the queue's lock held.
    final class ReplyBox: @unchecked Sendable {
        var result: Result<[AppendOutcome], any Error>?
    }

    struct Queue {
        var requests: [Request] = []
        var waiting = 0
        var isLed = false
        var isClosing = false
        /// Requests of callers that may not wait, which wait for room.
        var blocked: [Request] = []
        /// Threads that wait for room.
        var threadsAtGate = 0
    }

    struct FlushState {
        /// Flushes asked for, begun and done, counted.
        var asked: UInt64 = 0
        var begun: UInt64 = 0
        var done: UInt64 = 0
        var isClosing = false
        var hasEnded = false
        /// How the last one ended.
        var failure: EventLogError?
        /// Slices of the journal that the archive took, counted.
        var slices: UInt64 = 0
        /// Whether rows of adopted events are to be saved before anything else happens: ``saveFoldsSoon()``.
        var savesFolds = false
    }

    struct WriteState {
        /// How the last commit ended.
        var failure: EventLogError?
        /// So many bytes the journal had no room for.
        var wanted = 0
        /// Commits that failed, counted.
        var failures: UInt64 = 0
    }

    public let path: String
    public let options: StoreOptions
    /// The store's identity; also the replica id of the events that it makes itself.
    public let id: StoreID
    let archive: Archive
    let parity: ParityFile
    let tail: Tail
    let journal: FileJournal?
    let writer: Monitor<Writer>
    let queue = Monitor(Queue())
    let flushing = Monitor(FlushState())
    let writing = Monitor(WriteState())
    /// What flushes in a store without threads.
    let inlineFlusher = Monitor<Flusher?>(nil)
    let keys: Monitor<(file: KeyFile, ring: KeyRing)>
    /// Made of the key file's seed when it is first asked for: that takes longer than a signature is worth to whoever only names the key.
    let signer = Monitor<SigningKey?>(nil)
    let replicaNumbers: Monitor<[ReplicaID: UInt64]>
    let readers = Monitor<[ReaderBox]>([])
    let folds: [FoldSlot]
    /// Held for reading by whoever reads folded state, for writing while it changes; never over I/O of a commit.
    package let foldLock = ReadWriteLock()
    /// What the folds show is the fold of all events up to here. `nonisolated(unsafe)`: guarded by `foldLock`.
    package nonisolated(unsafe) var foldedPosition: Position = 0
    /// Held while a committed frame enters memory: what is cut is cut between frames.
    let foldProgress = Monitor(FoldProgress())
    let rebuilding = Monitor(false)
    /// Maintenance that rewrites sealed bytes excludes flushes.
    let maintenance = Monitor(false)
    let adoptedRows = Monitor(AdoptedRows())
    let adoptedFolding = Monitor<AdoptedFolding?>(nil)
    private let lockFile: File?
    private let isOpen = Atomic(true)
    let leadership = Monitor(LeaderState())
    let frameMemory: FrameMemory

    /// The frame under construction; whoever leads the queue holds it.
    struct LeaderState: ~Copyable {
        var frame = FrameBuilder()
        /// The events of the commit at hand, for the folds. Empty between commits, but kept up to a size: fresh memory is fetched from the system page by
        /// page.
        var events: [RecordedEvent] = []
        static let eventsKept = 8192
        var lastSync = ContinuousClock.now
        var hasUnsynced = false
    }

    /// `@unchecked Sendable`: lent to one reader at a time by the pool.
    final class ReaderBox: @unchecked Sendable {
        let reader: ArchiveReader
        init(_ archive: Archive) { reader = ArchiveReader(archive: archive) }
    }

    var flushBytes: Int { Self.flushBytes(options) }

    private static func flushBytes(_ options: StoreOptions) -> Int { max(options.journalBytesMax / FileJournal.fileCount, 1 << 15) }

    /// Opens a store, or creates it where the options say so.
    ///
    /// - Throws: `EventLogError`: `noSuchStore`, `cannotCreate`, `busy` (with the other's process id), `newerFormat`, `notAStore`, `damaged`,
    ///   `unsupportedFileSystem`, `inputOutput`.
    public static func open(at path: String, options: StoreOptions = StoreOptions()) throws -> EventStore {
        do {
            if case .readOnly = options.access { return try openReadOnly(path, options) }
            return try EventStore(writing: path, options)
        } catch let error as SystemError {
            throw error.typed
        } catch let error as LMDBError {
            throw Archive.typed(error, Archive.path(path))
        }
    }

    /// A reader beside a writer may find the journal between two generations; it looks again.
    private static func openReadOnly(_ path: String, _ options: StoreOptions) throws -> EventStore {
        var tries = 0
        while true {
            do {
                return try EventStore(reading: path, options)
            } catch let error as EventLogError where error.code == .damaged && tries < 5 {
                let isHeld = try isHeldByWriter(path)
                guard isHeld || tries < 1 else { throw error }
                tries += 1
                // A writer that has gone has left the journal whole: there is nothing to wait for.
                if isHeld { usleep(20_000 << UInt32(tries)) }
            }
        }
    }

    private static func isHeldByWriter(_ path: String) throws -> Bool {
        guard let file = try? File(path + "/lock", O_RDONLY) else { return false }
        return file.isLocked
    }

    package static func checkIsStore(_ path: String) throws {
        var status = stat()
        guard stat(path, &status) == 0 else {
            throw EventLogError(
                .noSuchStore,
                "\(path): no such store (\(String(cString: strerror(errno)))); `convstore import` or `convstore new` makes one, `convstore sync` a replica")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw EventLogError(.notAStore, "\(path) is a file, not a store's directory") }
        guard access(path, X_OK) == 0 else { throw EventLogError(.inputOutput, "\(path): \(String(cString: strerror(errno)))") }
        guard Directory.exists(Archive.path(path)) || Directory.exists(KeyFile.path(path)) else {
            throw EventLogError(.noSuchStore, "\(path): the directory holds no store")
        }
        try Directory.refuseNetwork(path)
    }

    private init(reading path: String, _ options: StoreOptions) throws {
        try Self.checkIsStore(path)
        self.path = path
        self.options = options
        frameMemory = FrameMemory(bytesMax: Self.flushBytes(options))
        try ArchiveCheck.beforeMapping(path, isBesideWriter: (try? Self.isHeldByWriter(path)) ?? true)
        archive = try Archive(directory: path, isReadOnly: true, mapBytesMax: Int.max / 2)
        parity = ParityFile(directory: path)
        id = try archive.storeID()
        // A writer beside us flushes: rows of later among those of now, and the frames of now over rows of later, would be no state at all.
        try archive.environment.pin()
        let state = try archive.environment.read { [archive] in try archive.state($0) }
        let file = try KeyFile(reading: path)
        let recovered = try RecoveredJournal(directory: path, store: id, archivedPosition: state.position, archivedFrame: state.frame)
        tail = Tail(frames: recovered.frames, archived: state.position)
        journal = nil
        lockFile = nil
        replicaNumbers = Monitor([:])
        let ring = try Self.keyRing(archive, file, state, skipsUnreadable: options.skipsUnreadableSecrets)
        keys = Monitor((file, ring))
        writer = Monitor(Writer(archive: archive, state: state, tail: tail, store: id, options))
        folds = Self.slots(options)
        try foldTail()
        // The folds' rows are read when somebody asks; events and logs' rows say themselves what is newer.
        if options.folds.isEmpty { archive.environment.unpin() }
    }

    private init(writing path: String, _ options: StoreOptions) throws {
        let exists = Directory.exists(path)
        if case .readWrite = options.access, !exists || ((try? Directory.names(path)) ?? [""]).isEmpty { try Self.create(path, options.side) }
        try Self.checkIsStore(path)
        self.path = path
        self.options = options
        frameMemory = FrameMemory(bytesMax: Self.flushBytes(options))
        let lock = try File(path + "/lock", O_RDWR | O_CREAT)
        guard lock.lockExclusively() else {
            let owner = String(decoding: (try? lock.read(20, at: 0)) ?? [], as: UTF8.self).filter(\.isNumber)
            let whose = owner == String(getpid()) ? "this process" : "process \(owner)"
            throw EventLogError(.busy, "\(path) is open for writing by \(whose): try again when that has ended")
        }
        try lock.truncate(to: 0)
        try Array("\(getpid())\n".utf8).withUnsafeBytes { try lock.write($0, at: 0) }
        lockFile = lock
        // What a compaction left that was cut off: it may hold texts that were erased since.
        for name in ["archive.new", "archive.new-lock", "key.new", "parity.new"] { try Directory.remove(path + "/" + name) }
        try ArchiveCheck.beforeMapping(path, isBesideWriter: false)
        archive = try Archive(directory: path, isReadOnly: false, mapBytesMax: options.mapBytesMax ?? Int.max / 2)
        parity = ParityFile(directory: path)
        id = try archive.storeID()
        var file = try KeyFile(reading: path)
        guard file.store == id else { throw Archive.damaged(KeyFile.path(path), "it belongs to another store") }
        let state = try archive.environment.read { [archive] in try archive.state($0) }
        if let next = file.next {
            // A rotation was cut off: the archive says which of the two keys it is wrapped with.
            if state.keyGeneration == next.generation { file.current = next }
            file.next = nil
            try file.write(to: path)
        }
        let recovered = try RecoveredJournal(directory: path, store: id, archivedPosition: state.position, archivedFrame: state.frame)
        journal = try FileJournal(
            directory: path, store: id, bytesMax: options.journalBytesMax, recovered: recovered, archivedFrame: state.frame)
        tail = Tail(frames: recovered.frames, archived: state.position)
        let ring = try Self.keyRing(archive, file, state, skipsUnreadable: options.skipsUnreadableSecrets)
        keys = Monitor((file, ring))
        var numbers: [ReplicaID: UInt64] = [:]
        try archive.environment.read { [archive] transaction in
            try transaction.forEach(archive.replicas) { key, value in
                var reader = ByteReader(try Archive.open(Array(key), value, "a replica's name"))
                let replica: ReplicaID = try reader.identifier()
                guard key.count == 8 else { throw Archive.damaged(archive.path, "a replica's number is no number") }
                numbers[replica] = UInt64(bigEndian: key.loadUnaligned(as: UInt64.self))
                return true
            }
        }
        replicaNumbers = Monitor(numbers)
        writer = Monitor(Writer(archive: archive, state: state, tail: tail, store: id, options))
        folds = Self.slots(options)
        try foldTail()
        startThreads()
    }

    private static func slots(_ options: StoreOptions) -> [FoldSlot] {
        let now = options.now
        return options.folds.map { FoldSlot($0, now: now) }
    }

    private func foldTail() throws {
        try openFolds()
        for frame in tail.snapshot.frames {
            try writer.withLock { try $0.replay(frame) }
            if folds.isEmpty { continue }
            fold(try frame.items.indices.map { try frame.recorded($0) }, breaks: [], frame: frame, isNew: false)
        }
        try loadTailSecrets()
    }

    /// Builds a new store aside and gives it its name when it is whole: a crash leaves a store or none.
    private static func create(_ path: String, _ side: [SideStore.TableName: [SideStore.Record]]?) throws {
        var trimmed = path
        while trimmed.count > 1, trimmed.hasSuffix("/") { trimmed.removeLast() }
        let parent = Directory.parent(trimmed)
        guard Directory.exists(parent) else { throw EventLogError(.cannotCreate, "\(path): the directory \(parent) does not exist; make it first") }
        try Directory.refuseNetwork(parent)
        func typed(_ error: SystemError) -> EventLogError {
            error.isNoSpace ? error.typed : EventLogError(.cannotCreate, "\(path) cannot be created: \(error)")
        }
        let aside: Aside
        do throws(SystemError) { aside = try Aside(of: trimmed, "creating") } catch { throw typed(error) }
        let made = aside.path
        do {
            let id = StoreID.random()
            let file = KeyFile(creating: id)
            try file.write(to: made)
            try create(archiveIn: made, id: id, file: file)
            try File(Archive.path(made), O_RDONLY).syncAll()
            if let side { try SideStore.create(made, [], side) }
            try Directory.sync(made)
            try aside.rename()
        } catch let error as SystemError {
            Directory.removeTree(made)
            // Another process made it meanwhile: the lock decides whose it is.
            if error.call == "rename", Directory.exists(Archive.path(trimmed)) { return }
            throw typed(error)
        } catch {
            Directory.removeTree(made)
            throw error
        }
    }

    static func create(archiveIn directory: String, id: StoreID, file: KeyFile) throws {
        let environment = try LMDBEnvironment(path: Archive.path(directory), isReadOnly: false, mapBytes: 1 << 20, mapBytesMax: 1 << 40)
        defer { environment.close() }
        let tables = try environment.tables(Archive.tableNames)
        let ring = KeyRing(master: PuncturedSeeds(root: .random()))
        try environment.write { transaction in
            let meta = tables[4]!
            try transaction.put(meta, Archive.MetaKey.store, Archive.storeRecord(id))
            try transaction.put(meta, Archive.MetaKey.state, Archive.sealed(Archive.MetaKey.state, Archive.State().encode()))
            let wrapped = try Wrapping.wrap(ring.master.encoded, key: file.current.secret, for: "seeds")
            try transaction.put(meta, Archive.MetaKey.seeds, Archive.sealed(Archive.MetaKey.seeds, wrapped))
        }
    }

    /// Opens the secrets with the key that the archive says they are wrapped with.
    static func keyRing(_ archive: Archive, _ file: KeyFile, _ state: Archive.State, skipsUnreadable: Bool = false) throws -> KeyRing {
        do {
            guard let key = file.key(ofGeneration: state.keyGeneration) else { throw CodecError(.badValue) }
            return try archive.environment.read { transaction in
                guard let bytes = try transaction.get(archive.meta, Archive.MetaKey.seeds) else { throw CodecError(.badValue) }
                let master = try Wrapping.unwrap(Archive.open(Archive.MetaKey.seeds, bytes, "the seeds"), key: key.secret, for: "seeds")
                guard let seeds = PuncturedSeeds(encoded: master) else { throw CodecError(.badValue) }
                var ring = KeyRing(master: seeds)
                // One may be out of reach altogether, with the page that it lay in.
                ring.isExplicitOnly = skipsUnreadable
                try transaction.forEach(archive.secrets) { name, value in
                    let name = Array(name)
                    let number = name.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                    if skipsUnreadable, Archive.unsealed(name, value) == nil { return true }
                    let raw = try Wrapping.unwrap(Archive.open(name, value, "a log's secret"), key: key.secret, for: "log \(number)")
                    guard let seeds = PuncturedSeeds(encoded: raw) else { throw CodecError(.badValue) }
                    ring.explicit[number] = seeds
                    return true
                }
                return ring
            }
        } catch let error as EventLogError {
            throw error
        } catch {
            throw EventLogError(.damaged, "\(KeyFile.path(archive.path)): the key does not open the archive's secrets: is it another store's?")
        }
    }

    /// Takes up the secrets of logs that a writer beside this reader has adopted since it was opened: without them such a log would be hashed with a secret
    /// that it never had.
    func followKeys(_ state: Archive.State) {
        guard journal == nil else { return }
        let (file, known) = keys.withLock { ($0.file, $0.ring.explicit) }
        // Of another key's secrets, after an erasure beside us, nothing is read here.
        guard var ring = try? Self.keyRing(archive, file, state) else { return }
        ring.explicit.merge(known) { new, _ in new }
        keys.withLock { $0.ring = ring }
    }

    /// Secrets of adopted logs that the archive does not hold yet.
    private func loadTailSecrets() throws {
        for frame in tail.snapshot.frames {
            for other in frame.others where other.kind == TailFrame.Record.secret {
                let record = try SecretRecord(decoding: frame.other(other.range))
                let key = keys.withLock { $0.file.current.secret }
                guard let raw = try? record.wrapped.withUnsafeBytes({ try Wrapping.unwrap($0, key: key, for: "log \(record.log)") }),
                    let seeds = PuncturedSeeds(encoded: raw)
                else { throw Archive.damaged(path, "the secret of log \(record.log) cannot be opened") }
                if let number = try writer.withLock({ try $0.state(of: record.log)?.row.number }) {
                    keys.withLock { $0.ring.explicit[number] = seeds }
                }
            }
        }
    }

    package func checkOpen() throws {
        if !isOpen.load(ordering: .acquiring) { throw EventLogError(.closed, "\(path): the store is closed") }
    }

    /// Lends a reader of the archive.
    func withReader<R>(_ body: (ArchiveReader) throws -> R) throws -> R {
        let box = readers.withLock { $0.popLast() } ?? ReaderBox(archive)
        defer { readers.withLock { if $0.count < 4 { $0.append(box) } } }
        do { return try body(box.reader) } catch { throw archive.typed(error) }
    }

    /// Lets go of the files as a process that is killed does: nothing is flushed, nothing written. For a store without threads.
    package func abandon() {
        precondition(options.runsInline, "only a store that runs inline can be abandoned: close it")
        guard isOpen.exchange(false, ordering: .acquiringAndReleasing) else { return }
        queue.withLock { $0.isClosing = true }
        inlineFlusher.withLock { $0 = nil }
        readers.withLock { $0 = [] }
        archive.environment.close()
        journal?.abandon()
        lockFile?.unlock()
    }

    /// The archive says that the journal reaches to a frame which holds nothing that is not archived.
    private func vouch(forFrame frame: UInt64) throws {
        guard try archive.environment.read({ [archive] in try archive.state($0).frame }) < frame else { return }
        try archive.environment.write { [archive] transaction in
            guard let bytes = try transaction.get(archive.meta, Archive.MetaKey.state) else { return }
            var state = try Archive.State(decoding: Archive.open(Archive.MetaKey.state, bytes, "the store's state"))
            state.frame = frame
            state.commit += 1
            try transaction.put(archive.meta, Archive.MetaKey.state, Archive.sealed(Archive.MetaKey.state, state.encode()))
        }
    }

    /// Whether its path still leads to it, if it is open for writing.
    var isStillNamed: Bool { lockFile?.isStillNamed ?? true }

    /// Writes what is in memory to the archive, gives unused room back, and ends the store's threads. Idempotent.
    ///
    /// After it returned, the files say where the journal ends: one that is shorter later is damage.
    public func close() throws { try close(isCompacting: false) }

    /// - Parameter progress: of the compaction; it may end that by throwing. What was to be kept is kept all the same.
    func close(isCompacting: Bool, progress: CopyProgress? = nil) throws {
        guard isOpen.exchange(false, ordering: .acquiringAndReleasing) else { return }
        defer {
            readers.withLock { $0 = [] }
            archive.environment.close()
            lockFile?.unlock()
        }
        guard let journal else { return }
        let blocked = queue.withLock { queue in
            queue.isClosing = true
            self.queue.wakeAll()
            defer { queue.blocked = [] }
            return queue.blocked
        }
        for request in blocked { enqueue(request) }
        queue.withLock(waitingWhile: { !$0.requests.isEmpty || $0.isLed }) { _ in }
        endFolding()
        var failure: (any Error)?
        if writer.withLock({ $0.failure }) == nil {
            do {
                _ = try journal.sync()
                foldProgress.withLock { $0.savesAll = true }
                try flush()
                try saveFolds()
            } catch { failure = error }
        }
        flushing.withLock { state in
            state.isClosing = true
            if options.runsInline { state.hasEnded = true }
            flushing.wakeAll()
        }
        flushing.withLock(waitingWhile: { !$0.hasEnded }) { _ in }
        try? parity.sync()
        defer { parity.close() }
        if failure == nil, writer.withLock({ $0.failure }) == nil, tail.isEmpty {
            do {
                // A closing that failed here left a frame that the archive has not heard of: another behind it would follow nothing.
                try vouch(forFrame: journal.lastFrame)
                try journal.close()
                // The archive vouches for the closing frame: a journal that ends before it is damage.
                try vouch(forFrame: journal.lastFrame)
                if isCompacting {
                    // First: it is small, and where it is damaged all stays as it was.
                    try SideStore.rewrite(directory: path)
                    try rewriteArchive(progress)
                } else if try isWorthCompacting() {
                    // Room is saved by the way: a damaged record, which `verify` names, or a disk that is full is no reason why a store should not close.
                    do { try rewriteArchive() } catch let error as EventLogError where [.damaged, .diskFull].contains(error.code) {
                    } catch let error as SystemError where error.isNoSpace {}
                }
            } catch { failure = error }
        }
        switch failure {
        case let error as SystemError: throw error.typed
        case let error as LMDBError: throw Archive.typed(error, archive.path)
        case let error?: throw error
        case nil: break
        }
    }
}
