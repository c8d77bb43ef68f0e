import Synchronization
import Testing

@testable import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// What is shown of adopted runs is saved when all is there.
extension AdoptRunTests {
    private func saved(_ store: EventStore) throws -> Position? { try store.statistics().projections["tally"] }

    /// Waits until the store's own thread has done what it was asked for.
    private func waitUntil(_ isDone: () throws -> Bool) throws -> Bool {
        // Calls may be held up (Tests/delays).
        for _ in 0..<60_000 {
            if try isDone() { return true }
            usleep(1000)
        }
        return false
    }

    @Test("I4: who has taken in all there is has what is shown saved at once, also what is being encoded; few rows are not worth it", arguments: [false, true])
    func savedSoon(_ runsInline: Bool) throws {
        let hub = try hub()
        // Some rows are too few, those of four runs and more are due only with what comes.
        for (rowBytes, isSaved) in [(16, false), (4 << 10, true), (1 << 20, true)] {
            let path = directory.path + "/\(rowBytes)"
            let tally = Tally(rowBytes: rowBytes)
            var options = options(tally)
            options.runsInline = runsInline
            let store = try EventStore.open(at: path, options: options)
            for run in hub.runs { _ = try store.adoptRun(run.bytes, secrets: hub.secrets) { _, _ in } }
            #expect(try saved(store) != store.lastPosition)
            store.saveFoldsSoon()
            if isSaved {
                #expect(try waitUntil { try saved(store) == store.lastPosition })
                #expect(store.foldProgress.withLock { $0.encoding == nil && $0.unsaved.isEmpty })
            } else {
                usleep(20_000)
                #expect(try saved(store) == 0)
            }
            try check(store, tally, (0..<4).flatMap { hub.part($0) }, hub)
            try checkCrashed(crashed("saved \(rowBytes)", of: path), (0..<4).flatMap { hub.part($0) }, hub)
            try store.close()
            #expect(try EventStore.verify(at: path).problems == [])
        }
    }

    @Test("I4: what is in the journal already is archived and saved with it", arguments: [false, true]) func savedWithFlush(_ runsInline: Bool) throws {
        let hub = try hub()
        let tally = Tally(rowBytes: 4 << 10)
        var options = options(tally)
        options.runsInline = runsInline
        let store = try EventStore.open(at: directory.store, options: options)
        for run in hub.runs { _ = try store.adoptRun(run.bytes, secrets: hub.secrets) { _, _ in } }
        _ = try store.appendBlocking([created(50)])
        store.saveFoldsSoon()
        #expect(try waitUntil { try saved(store) == store.lastPosition })
        try checkCrashed(crashed("flushed"), (0..<4).flatMap { hub.part($0) }, own: 1, hub)
        // Once: those that follow wait for their time again.
        _ = try store.appendBlocking([sent(1, in: 50, "later")])
        try store.flush()
        #expect(try saved(store)! < store.lastPosition)
        try store.close()
    }

    @Test("I4: where the last frame is cut already, what is saved goes with that cut") func savedWithCut() throws {
        let hub = try hub()
        let tally = Tally(rowBytes: 4 << 10)
        var options = options(tally)
        options.runsInline = true
        let disk = BesideCommit()
        FaultyDisks.add(disk, for: directory.path)
        defer { FaultyDisks.remove(disk) }
        let store = try EventStore.open(at: directory.store, options: options)
        for run in hub.runs { _ = try store.adoptRun(run.bytes, secrets: hub.secrets) { _, _ in } }
        _ = try store.appendBlocking([created(50)])
        disk.before([{ true }])
        #expect(throws: EventLogError.self) { try store.flush() }
        #expect(store.foldProgress.withLock { $0.cuts.map(\.rows.count) } == [0])
        store.saveFoldsSoon()
        #expect(try saved(store) == store.lastPosition)
        try checkCrashed(crashed("saved"), (0..<4).flatMap { hub.part($0) }, own: 1, hub)
        try store.close()
    }

    @Test("I4: rows are not saved as of a position that they are not the fold of: that of a commit that failed, and has turned up", arguments: [false, true])
    func turnedUp(_ knowsFailure: Bool) throws {
        let hub = try hub()
        let tally = Tally(rowBytes: 4 << 10)
        let disk = BesideCommit()
        FaultyDisks.add(disk, for: directory.path)
        defer { FaultyDisks.remove(disk) }
        var options = options(tally)
        options.runsInline = true
        let store = try EventStore.open(at: directory.store, options: options)
        for run in hub.runs[..<3] { _ = try store.adoptRun(run.bytes, secrets: hub.secrets) { _, _ in } }
        disk.deny()
        #expect(throws: EventLogError.self) { _ = try store.adoptRun(hub.runs[3].bytes, secrets: hub.secrets) { _, _ in } }
        if !knowsFailure { store.writer.withLock { $0.failure = nil } }
        store.saveFoldsSoon()
        store.abandon()
        try checkCrashed(crashed("denied"), (0..<4).flatMap { hub.part($0) }, hub)
    }

    /// Commits of the archive meet what a test does beside them, and fail if it says so.
    private final class BesideCommit: DiskFaults {
        private let actions = Mutex<[@Sendable () -> Bool]>([])

        /// What happens before each of the next commits; whether it fails.
        func before(_ bodies: [@Sendable () -> Bool]) { actions.withLock { $0 = bodies } }

        private let denies = Atomic(false)

        /// The next commit is done, and says that it failed.
        func deny() { denies.store(true, ordering: .relaxed) }

        func willCommit(_ path: String) throws(SystemError) {
            guard path.hasSuffix("/archive") else { return }
            let fails = actions.withLock { $0.isEmpty ? nil : $0.removeFirst() }?() ?? false
            if fails { throw SystemError(call: "mdb_txn_commit", path: path, number: EIO) }
        }
        func didCommit(_ path: String) throws(SystemError) {
            if denies.exchange(false, ordering: .relaxed) { throw SystemError(call: "mdb_txn_commit", path: path, number: EIO) }
        }
    }

    @Test(
        "I1, I4: appends go on while rows are saved; where that fails, the rows go before what was frozen of them meanwhile",
        arguments: [(false, 0), (false, 1), (true, 1), (false, 400), (true, 400)], [4 << 10, 1 << 20])
    func appendsBesideSaving(_ beside: (fails: Bool, appends: Int), _ rowBytes: Int) throws {
        let (fails, appends) = beside
        let hub = try hub()
        let tally = Tally(rowBytes: rowBytes)
        let disk = BesideCommit()
        FaultyDisks.add(disk, for: directory.path)
        defer { FaultyDisks.remove(disk) }
        let store = try EventStore.open(at: directory.store, options: options(tally))
        _ = try store.appendBlocking([created(50)])
        for run in hub.runs { _ = try store.adoptRun(run.bytes, secrets: hub.secrets) { _, _ in } }
        let isDone = Atomic(false)
        let failure = Mutex<(any Error)?>(nil)
        @Sendable func attempt(_ body: () throws -> Void) { do { try body() } catch { failure.withLock { $0 = error } } }
        disk.before([
            {
                attempt {
                    // Of many a cut is made; if a row counts much, with what changed of it since.
                    for number in 0..<UInt64(appends) { _ = try store.appendBlocking([sent(number, in: 50, String(repeating: "beside ", count: 40))]) }
                }
                isDone.store(true, ordering: .releasing)
                return fails
            },
            { false },
            // Behind the first of the cuts.
            {
                attempt { _ = try crashed("between") }
                return false
            },
        ])
        store.saveFoldsSoon()
        #expect(try waitUntil { isDone.load(ordering: .acquiring) })
        // It, or a flush behind it, has ended.
        store.maintenance.withLock { _ in }
        let taken = (0..<4).flatMap { hub.part($0) }
        try check(store, tally, taken, own: 1 + appends, hub)
        try checkCrashed(crashed("behind"), taken, own: 1 + appends, hub)
        try store.flush()
        try checkCrashed(crashed("flushed"), taken, own: 1 + appends, hub)
        try check(store, tally, taken, own: 1 + appends, hub)
        if appends == 400 { try checkCrashed(directory.path + "/between", taken, own: 1 + appends, hub) }
        try store.close()
        #expect(failure.withLock { $0 == nil })
        try checkCrashed(directory.store, taken, own: 1 + appends, hub)
    }
}
