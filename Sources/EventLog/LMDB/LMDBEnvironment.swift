internal import CLMDB
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// One LMDB environment in one file, its map grown as it fills.
///
/// Safe to use from several threads.
///
/// `@unchecked Sendable`: LMDB's environment handle is made for several threads; the growth of the map and what is kept of a snapshot exclude readers
/// (`gate`), and a kept snapshot is lent to one thread at a time (its own lock).
final class LMDBEnvironment: @unchecked Sendable {
    private let handle: OpaquePointer
    private let gate: UnsafeMutablePointer<pthread_rwlock_t>
    private let isReadOnly: Bool
    private let mapBytesMax: Int
    private let mapBytes: Atomic<Int>
    private let lock = Monitor<Bool>(false)  // whether it is closed
    /// A snapshot that is kept, guarded by `gate`.
    private var pinned: Pin?
    /// Transactions that were reset, to be renewed: LMDB clears some kilobytes for a new one.
    private let idle = Monitor<[Idle]>([])
    let path: String

    /// A named table of the environment.
    struct Table: Sendable {
        let index: MDB_dbi
    }

    /// Opens the file, which is created if it is absent and `isReadOnly` is false.
    init(path: String, isReadOnly: Bool, mapBytes wanted: Int, mapBytesMax: Int, usesLock: Bool = true, isScratch: Bool = false) throws(LMDBError) {
        var created: OpaquePointer?
        try LMDBError.check(mdb_env_create(&created), "mdb_env_create")
        handle = created!
        gate = .allocate(capacity: 1)
        pthread_rwlock_init(gate, nil)
        self.path = path
        self.isReadOnly = isReadOnly
        self.mapBytesMax = mapBytesMax
        mapBytes = Atomic(wanted)
        // All properties are set: whatever is thrown from here on, `deinit` closes the handle.
        try LMDBError.check(mdb_env_set_maxdbs(handle, 128), "mdb_env_set_maxdbs")
        try LMDBError.check(mdb_env_set_maxreaders(handle, 1024), "mdb_env_set_maxreaders")
        try LMDBError.check(mdb_env_set_mapsize(handle, wanted), "mdb_env_set_mapsize")
        var flags = UInt32(MDB_NOSUBDIR | MDB_NOTLS)
        if isReadOnly { flags |= UInt32(MDB_RDONLY) }
        if !usesLock { flags |= UInt32(MDB_NOLOCK) }
        if isScratch { flags |= UInt32(MDB_NOSYNC) }
        if usesLock { try Self.allocateLockFile(path + "-lock") }
        try LMDBError.check(mdb_env_open(handle, path, flags, 0o600), "mdb_env_open")
        if usesLock {
            var dead: CInt = 0
            mdb_reader_check(handle, &dead)
        }
    }

    /// Opens a file that exists, with room to grow; for reading also where nothing may be written.
    static func existing(_ path: String, isReadOnly: Bool, mapBytesMax: Int) throws -> LMDBEnvironment {
        let size = try File(path, 0).size
        let wanted = min(max(1 << 20, size * 2), max(mapBytesMax, size))
        // A directory that we may not write to: no other process can be writing with us either.
        let usesLock = !isReadOnly || Directory.isWritable(path)
        do throws(LMDBError) {
            return try LMDBEnvironment(path: path, isReadOnly: isReadOnly, mapBytes: wanted, mapBytesMax: mapBytesMax, usesLock: usesLock)
        } catch {
            // No room for a lock file, and nobody else has one: what there is can be read all the same.
            guard isReadOnly, usesLock, error.code == ENOSPC || error.code == EDQUOT, !isHeld(path) else { throw error }
            return try LMDBEnvironment(path: path, isReadOnly: true, mapBytes: wanted, mapBytesMax: mapBytesMax, usesLock: false)
        }
    }

    deinit {
        close()
        pthread_rwlock_destroy(gate)
        gate.deallocate()
    }

    /// LMDB leaves its lock file sparse and maps it: on a full disk, touching it is a SIGBUS. So all of it gets its blocks before.
    private static func allocateLockFile(_ path: String) throws(LMDBError) {
        #if canImport(Glibc)
            var status = stat()
            // Who maps it has seen to that; and closing a descriptor of it would drop this process's locks on it.
            if stat(path, &status) == 0, status.st_size >= lockBytes, status.st_blocks * 512 >= status.st_size { return }
            let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { return }  // Opening the environment says why.
            let code = posix_fallocate(descriptor, 0, off_t(max(lockBytes, Int(status.st_size))))
            Glibc.close(descriptor)
            if code == ENOSPC || code == EDQUOT { throw LMDBError(code: code, call: "posix_fallocate") }
        #endif
    }

    /// As many slots of readers take in LMDB's file, in whole pages.
    private static let lockBytes = 68 << 10

    /// Whether another process has the environment open: LMDB holds a lock on the first byte of its lock file as long.
    private static func isHeld(_ path: String) -> Bool {
        guard let file = try? File(path + "-lock", O_RDONLY) else { return false }
        var lock = flock()
        lock.l_type = Int16(F_WRLCK)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_len = 1
        return fcntl(file.descriptor, F_GETLK, &lock) != 0 || lock.l_type != Int16(F_UNLCK)
    }

    func close() {
        pthread_rwlock_wrlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        lock.withLock { closed in
            pinned = nil
            dropIdle()
            if !closed { mdb_env_close(handle) }
            closed = true
        }
    }

    /// With `gate` held: LMDB's handle is there for as long.
    private func checkOpen() throws { if lock.withLock({ $0 }) { throw EventLogError(.closed, "the store is closed") } }

    /// Opens the tables, which a writer creates if they are absent, unless told not to.
    ///
    /// - Throws: `EventLogError` `closed`; `LMDBError`.
    func tables(_ names: [String], creates: Bool = true) throws -> [Table?] {
        pthread_rwlock_rdlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        try checkOpen()
        var transaction: OpaquePointer?
        try LMDBError.check(mdb_txn_begin(handle, nil, isReadOnly ? UInt32(MDB_RDONLY) : 0, &transaction), "mdb_txn_begin")
        var result: [Table?] = []
        let creates = creates && !isReadOnly
        for name in names {
            var index: MDB_dbi = 0
            let code = mdb_dbi_open(transaction, name, creates ? UInt32(MDB_CREATE) : 0, &index)
            if code == MDB_NOTFOUND, !creates {
                result.append(nil)
                continue
            }
            if code != MDB_SUCCESS {
                mdb_txn_abort(transaction)
                throw LMDBError(code: code, call: "mdb_dbi_open")
            }
            result.append(Table(index: index))
        }
        try LMDBError.check(mdb_txn_commit(transaction), "mdb_txn_commit")
        return result
    }

    /// The names of all tables.
    func tableNames() throws -> [String] {
        var names: [String] = []
        try read { transaction in
            var main: MDB_dbi = 0
            try LMDBError.check(mdb_dbi_open(transaction.handle, nil, 0, &main), "mdb_dbi_open")
            try transaction.forEach(Table(index: main)) { key, _ in
                names.append(String(decoding: key, as: UTF8.self))
                return true
            }
        }
        return names
    }

    /// `@unchecked Sendable`: LMDB lets a transaction move between threads (MDB_NOTLS), and one at a time has it.
    private struct Idle: @unchecked Sendable { let handle: OpaquePointer }
    /// So many readers at once are hardly ever more; each keeps a slot of LMDB's 1024.
    private static let idleMax = 8

    private final class Pin {
        let handle: OpaquePointer
        let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

        init(_ handle: OpaquePointer) {
            self.handle = handle
            var attributes = pthread_mutexattr_t()
            pthread_mutexattr_init(&attributes)
            pthread_mutexattr_settype(&attributes, CInt(PTHREAD_MUTEX_RECURSIVE))
            pthread_mutex_init(lock, &attributes)
            pthread_mutexattr_destroy(&attributes)
        }

        deinit {
            mdb_txn_abort(handle)
            pthread_mutex_destroy(lock)
            lock.deallocate()
        }
    }

    /// Keeps a snapshot until the environment is closed: for a reader beside a writer, whose rows must all be of one moment.
    func pin() throws {
        pthread_rwlock_wrlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        pinned = Pin(try begin { mdb_env_set_mapsize(handle, 0) })
    }

    /// A snapshot of what is newest: an idle transaction's, or else a new one's. `follow` as ``begin(following:)``.
    private func take(following follow: () -> Void) throws(LMDBError) -> OpaquePointer {
        if let idle = idle.withLock({ $0.popLast() }) {
            if mdb_txn_renew(idle.handle) == MDB_SUCCESS { return idle.handle }
            // What hinders it hinders a new one too, and is told there.
            mdb_txn_abort(idle.handle)
        }
        return try begin(following: follow)
    }

    private func giveBack(_ handle: OpaquePointer) {
        mdb_txn_reset(handle)
        let isKept = idle.withLock { idle in
            if idle.count < Self.idleMax { idle.append(Idle(handle: handle)) }
            return idle.last?.handle == handle
        }
        if !isKept { mdb_txn_abort(handle) }
    }

    /// Before the map moves or goes.
    private func dropIdle() {
        for idle in idle.withLock({ idle in
            defer { idle = [] }
            return idle
        }) {
            mdb_txn_abort(idle.handle)
        }
    }

    /// Begins a snapshot. `follow` has the environment take the size to which the writer's process grew the map.
    private func begin(following follow: () -> Void) throws(LMDBError) -> OpaquePointer {
        var transaction: OpaquePointer?
        var code = mdb_txn_begin(handle, nil, UInt32(MDB_RDONLY), &transaction)
        if code == MDB_READERS_FULL {
            // Readers that were killed keep their slots until someone looks.
            var dead: CInt = 0
            mdb_reader_check(handle, &dead)
            code = mdb_txn_begin(handle, nil, UInt32(MDB_RDONLY), &transaction)
        }
        if code == MDB_MAP_RESIZED {
            follow()
            code = mdb_txn_begin(handle, nil, UInt32(MDB_RDONLY), &transaction)
        }
        try LMDBError.check(code, "mdb_txn_begin")
        return transaction!
    }

    /// Ends the snapshot that is kept: from here on every reading sees what is newest.
    func unpin() {
        pthread_rwlock_wrlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        pinned = nil
    }

    /// A table as the snapshot that is kept has it. While the store opens, by one thread.
    func pinnedTable(_ name: String) throws -> Table? {
        try read { transaction in
            var index: MDB_dbi = 0
            let code = mdb_dbi_open(transaction.handle, name, 0, &index)
            if code == MDB_NOTFOUND { return nil }
            try LMDBError.check(code, "mdb_dbi_open")
            return Table(index: index)
        }
    }

    var isPinned: Bool {
        pthread_rwlock_rdlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        return pinned != nil
    }

    /// Lends a snapshot for the length of the closure: the one that is kept, to one thread at a time, or else the newest.
    func read<R>(_ body: (borrowing ReadTransaction) throws -> R) throws -> R {
        pthread_rwlock_rdlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        try checkOpen()
        if let pinned {
            // LMDB lets a transaction move between threads (MDB_NOTLS), not be used by two at once. One reading may ask for another.
            pthread_mutex_lock(pinned.lock)
            defer { pthread_mutex_unlock(pinned.lock) }
            do {
                return try body(ReadTransaction(handle: pinned.handle))
            } catch let error as LMDBError {
                throw Archive.typed(error, path)
            }
        }
        do {
            let transaction = try take {
                // Ours follows when no other reader of this process stands in it.
                pthread_rwlock_unlock(gate)
                pthread_rwlock_wrlock(gate)
                dropIdle()
                mdb_env_set_mapsize(handle, 0)
                pthread_rwlock_unlock(gate)
                pthread_rwlock_rdlock(gate)
            }
            defer { giveBack(transaction) }
            return try body(ReadTransaction(handle: transaction))
        } catch let error as LMDBError {
            // Reads stand everywhere: so they are typed here.
            throw Archive.typed(error, path)
        }
    }

    /// A snapshot for more than one closure, of which one thread at a time reads. While there is one the map does not grow: keep it for as long as it takes
    /// to read what is asked for, no longer.
    ///
    /// `@unchecked Sendable`: see `begin`, whose thread ends it.
    final class Snapshot: @unchecked Sendable {
        fileprivate let handle: OpaquePointer

        fileprivate init(_ handle: OpaquePointer) { self.handle = handle }

        func read<R>(_ body: (borrowing ReadTransaction) throws -> R) throws -> R { try body(ReadTransaction(handle: handle)) }
    }

    /// Begins a snapshot, which the same thread ends.
    func beginSnapshot() throws -> Snapshot {
        pthread_rwlock_rdlock(gate)
        do {
            try checkOpen()
            // Nobody but this process lets the map of an environment grow that it writes.
            return Snapshot(try take {})
        } catch {
            pthread_rwlock_unlock(gate)
            throw (error as? LMDBError).map { Archive.typed($0, path) } ?? error
        }
    }

    func end(_ snapshot: Snapshot) {
        giveBack(snapshot.handle)
        pthread_rwlock_unlock(gate)
    }

    /// Runs the closure in a write transaction, and commits it. When the map is full it grows, and the closure runs again. The closure must not close the environment.
    func write<R>(_ body: (inout WriteTransaction) throws -> R) throws -> R {
        let faults = FaultyDisks.disk(of: path)
        while true {
            do {
                return try writeOnce(faults, body)
            } catch let error as LMDBError where error.code == MDB_MAP_FULL || error.code == MDB_MAP_RESIZED {
                try grow(isResize: error.code == MDB_MAP_RESIZED)
            } catch let error as LMDBError where error.code == EIO && faults?.hasNoRoom(path) ?? Directory.hasNoRoom(path) {
                // What LMDB answers where the system wrote a part of its pages and had no room for the rest. They are not named by a meta page yet.
                throw LMDBError(code: ENOSPC, call: error.call)
            }
        }
    }

    private func writeOnce<R>(_ faults: (any DiskFaults)?, _ body: (inout WriteTransaction) throws -> R) throws -> R {
        // As in `read`: a closing waits.
        pthread_rwlock_rdlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        try checkOpen()
        // A reader that was killed would keep what it saw from being used again, and the file would grow for as long as we live.
        var dead: CInt = 0
        mdb_reader_check(handle, &dead)
        try Self.ask(faults) { faults throws(SystemError) in try faults.willCommit(path) }
        var transaction: OpaquePointer?
        try LMDBError.check(mdb_txn_begin(handle, nil, 0, &transaction), "mdb_txn_begin")
        var write = WriteTransaction(handle: transaction!)
        let result = try body(&write)
        try write.commit()
        try Self.ask(faults) { faults throws(SystemError) in try faults.didCommit(path) }
        return result
    }

    /// Gives back what this process has read of the file: a store that grows must not count as memory that grows.
    func releasePages() {
        // What hinders it hinders whoever reads next, and is told there.
        try? read { transaction in
            var info = MDB_envinfo()
            mdb_env_info(handle, &info)
            // Of a small file there is not so much that it is worth asking the system where it lies.
            if info.me_last_pgno < Self.releasedPagesMin { return }
            if let address = try transaction.anyAddress() { MappedPages.releaseAll(around: address) }
        }
    }

    /// What a test's disk says, as LMDB would say it.
    private static func ask(_ faults: (any DiskFaults)?, _ body: (any DiskFaults) throws(SystemError) -> Void) throws(LMDBError) {
        guard let faults else { return }
        do throws(SystemError) { try body(faults) } catch { throw LMDBError(code: error.number, call: error.call) }
    }

    private func grow(isResize: Bool) throws {
        pthread_rwlock_wrlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        dropIdle()
        if isResize {
            try LMDBError.check(mdb_env_set_mapsize(handle, 0), "mdb_env_set_mapsize")
            return
        }
        let now = mapBytes.load(ordering: .relaxed)
        let next = min(now < 1 << 30 ? now * 2 : now + 1 << 30, mapBytesMax)
        guard next > now else {
            throw EventLogError(.diskFull, "\(path): the archive's map has reached its limit of \(mapBytesMax) bytes; raise `mapBytesMax` or delete something")
        }
        try LMDBError.check(mdb_env_set_mapsize(handle, next), "mdb_env_set_mapsize")
        mapBytes.store(next, ordering: .relaxed)
    }

    /// A megabyte, mostly.
    private static let releasedPagesMin = 256

    struct Information {
        var pageBytes: Int
        var lastPage: Int
        var lastTransaction: Int
        var oldestReaderTransaction: Int?
        var readers: Int
    }

    func information() throws -> Information {
        pthread_rwlock_rdlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        try checkOpen()
        var info = MDB_envinfo()
        var stat = MDB_stat()
        mdb_env_info(handle, &info)
        mdb_env_stat(handle, &stat)
        final class Box { var oldest: Int? }
        let box = Box()
        mdb_reader_list(
            handle,
            { line, context in
                guard let line, let context else { return 0 }
                // "       pid     thread     txnid": the third column is the snapshot that the reader holds, or "-".
                let words = String(cString: line).split(separator: " ")
                if words.count >= 3, let id = Int(words[2].trimmedNewline) {
                    let box = Unmanaged<Box>.fromOpaque(context).takeUnretainedValue()
                    box.oldest = min(box.oldest ?? id, id)
                }
                return 0
            }, Unmanaged.passUnretained(box).toOpaque())
        return Information(
            pageBytes: Int(stat.ms_psize), lastPage: info.me_last_pgno, lastTransaction: info.me_last_txnid, oldestReaderTransaction: box.oldest,
            readers: Int(info.me_numreaders))
    }

    /// The pages that the free list names.
    func freePages() throws -> Int {
        try read { transaction in
            var pages = 0
            try transaction.forEachFree { value in
                if value.count >= 8 { pages += Int(value.loadUnaligned(as: UInt64.self)) }
            }
            return pages
        }
    }
}

extension Substring {
    fileprivate var trimmedNewline: Substring { hasSuffix("\n") ? dropLast() : self }
}
