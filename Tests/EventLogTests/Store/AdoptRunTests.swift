import Synchronization
import Testing

@testable import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("Adopting whole runs") struct AdoptRunTests {
    let directory = TemporaryDirectory()

    struct Hub {
        var runs: [StoredRun] = []
        /// All events; the runs hold the first of them.
        var events: [RecordedEvent] = []
        var heads: [LogID: Head] = [:]
        var secrets: [LogID: [UInt8]] = [:]

        func part(_ index: Int) -> [RecordedEvent] {
            let first = Int(runs[index].firstPosition) - 1
            return Array(events[first..<first + runs[index].eventCount])
        }
        var rest: [RecordedEvent] { Array(events[Int(runs.last!.firstPosition) - 1 + runs.last!.eventCount..<events.count]) }
    }

    /// Four runs and a tail of events of all kinds, one of them erased.
    func hub() throws -> Hub {
        let store = try EventStore.open(at: directory.path + "/hub")
        var hub = Hub()
        for round in 0..<4 as Range<UInt64> {
            try talk(store, round: round, messages: 24)
            if round == 2 { _ = try store.appendBlocking([created(5, by: "eve")]) }
            try store.flush()
            if round == 1 { try store.erase(log: .conversation(conversation(1)), seq: 3) }
        }
        try talk(store, round: 4, messages: 12)
        hub.events = try store.all()
        hub.heads = try store.heads()
        for log in hub.heads.keys { hub.secrets[log] = try store.secret(of: log) }
        var position: Position = 1
        while let run = try store.storedRun(containing: position) {
            hub.runs.append(run)
            position += Position(run.eventCount)
        }
        #expect(hub.runs.count == 4 && !hub.rest.isEmpty)
        try store.close()
        return hub
    }

    func options(_ tally: Tally?) -> StoreOptions {
        var options = StoreOptions(journalBytesMax: 256 << 10)
        options.folds = tally.map { [$0] } ?? []
        return options
    }

    /// The files as a crash would leave them.
    func crashed(_ name: String, of path: String? = nil) throws -> String {
        let (path, target) = (path ?? directory.store, directory.path + "/" + name)
        try Directory.make(target)
        for file in try Directory.names(path) where file != "archive-lock" {
            let source = try File(path + "/" + file, O_RDONLY)
            let bytes = try source.read(source.size, at: 0)
            try bytes.withUnsafeBytes { try File(target + "/" + file, O_RDWR | O_CREAT).write($0, at: 0) }
        }
        return target
    }

    /// The store holds just these events, densely (I2), with the hub's heads (I6), and its fold is theirs (I4).
    func check(_ store: EventStore, _ tally: Tally?, _ events: [RecordedEvent], own: Int = 0, _ hub: Hub) throws {
        let all = try store.all()
        #expect(all.map(\.position) == Array(1..<Position(all.count) + 1))
        #expect(all.count == events.count + own)
        let logs = Dictionary(grouping: events, by: \.log)
        for (log, events) in logs {
            #expect(try store.events(in: log).map(\.shipped) == events.map(\.shipped))
            let seeds = try #require(PuncturedSeeds(secret: hub.secrets[log]!))
            let tree = try HeadCache.extend(CompactRange(), with: events, seeds: seeds)
            #expect(try store.head(of: log) == Head(log: log, size: tree.size, root: tree.root()))
        }
        guard let tally else { return }
        for (log, events) in Dictionary(grouping: all, by: \.log) {
            #expect(try tally.row(of: log, in: store) == [UInt64(events.count), events.reduce(0) { $0 + $1.position }, events.last!.seq])
        }
    }

    func checkCrashed(_ path: String, _ events: [RecordedEvent], own: Int = 0, _ hub: Hub) throws {
        #expect(try EventStore.verify(at: path).problems == [])
        let tally = Tally(savesSoon: false)
        var store = try EventStore.open(at: path, options: options(tally))
        try check(store, tally, events, own: own, hub)
        _ = try store.appendBlocking([created(60)])
        try store.close()
        store = try EventStore.open(at: path, options: options(tally))
        try check(store, tally, events, own: own + 1, hub)
        try store.close()
        #expect(try EventStore.verify(at: path).problems == [])
    }

    @Test(
        "I1, I2, I4, I6: a replica takes runs, among events of its own; a crash before, within and behind each leaves all of it or none",
        arguments: [false, true])
    func adopt(_ savesSoon: Bool) throws {
        let hub = try hub()
        let tally = Tally(savesSoon: savesSoon)
        var store = try EventStore.open(at: directory.store, options: options(tally))
        _ = try store.appendBlocking([created(50), sent(1, in: 50, "own")])
        var own = 2
        var taken: [RecordedEvent] = []
        for (index, run) in hub.runs.enumerated() {
            var trees: [LogID: CompactRange] = [:]
            let before = taken
            let savedAfter = store.lastPosition
            let last = try store.adoptRun(run.bytes, secrets: hub.secrets) { log, tree in
                if trees.isEmpty { try checkCrashed(crashed("within \(index)"), before, own: own, hub) }
                trees[log] = tree
            }
            taken += hub.part(index)
            #expect(Set(trees.keys) == Set(run.slices.map(\.log)))
            for slice in run.slices {
                #expect(last[slice.log] == slice.firstSeq + Seq(slice.count) - 1)
                #expect(trees[slice.log]?.size == last[slice.log])
                #expect(try store.head(of: slice.log)?.root == trees[slice.log]?.root())
            }
            try check(store, tally, taken, own: own, hub)
            #expect(store.clock >= hub.part(index).map(\.hlc).max()!)
            try checkCrashed(crashed("behind \(index)"), taken, own: own, hub)
            // Rows are encoded while the next run comes, and written with it.
            if savesSoon, index > 0 { #expect(try store.statistics().projections["tally"] == savedAfter) }
            if index == 1 {
                // Events that go through the journal stand behind the run's, before they are archived and after.
                _ = try store.appendBlocking([sent(2, in: 50, "mine"), sent(3, in: 50, "again")])
                own += 2
                try checkCrashed(crashed("journal \(index)"), taken, own: own, hub)
            }
            if index == 2 {
                try store.close()
                store = try EventStore.open(at: directory.store, options: options(tally))
            }
        }
        #expect(try store.adoptBlocking(hub.rest, secrets: hub.secrets).allSatisfy(\.isAccepted))
        try check(store, tally, hub.events, own: own, hub)
        try checkCrashed(crashed("rest"), hub.events, own: own, hub)
        try store.flush()
        try check(store, tally, hub.events, own: own, hub)
        for (log, head) in hub.heads { #expect(try store.head(of: log) == head) }
        let statistics = try store.statistics()
        #expect(statistics.conversations == 4)
        #expect(statistics.messages == UInt64(try store.all().filter { $0.event.content.kind == .messageSent }.count))
        // What a repeat is answered with comes from rows and runs that were adopted.
        let repeated = hub.events.first { $0.event.content.kind == .messageSent && !$0.isErased }!
        #expect(try store.appendBlocking([Submission(repeated.event, origin: repeated.origin)])[0].receipt?.seq == repeated.seq)
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
        #expect(try EventStore.compact(at: directory.store).after > 0)
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("I1, I2, I4, I6: runs that are taken together go in one commit, all of them or none", arguments: [2, 4], [false, true])
    func together(_ count: Int, _ savesSoon: Bool) throws {
        let hub = try hub()
        let tally = Tally(savesSoon: savesSoon)
        let store = try EventStore.open(at: directory.store, options: options(tally))
        func commits() throws -> UInt64 { try store.archive.environment.read { try store.archive.state($0).commit } }
        var taken: [RecordedEvent] = []
        for first in stride(from: 0, to: 4, by: count) {
            let group = first..<first + count
            let runs = try group.map { index in
                (run: try PreparedRun(hub.runs[index].bytes) { PuncturedSeeds(secret: hub.secrets[$0]!) }, secrets: hub.secrets)
            }
            let before = try commits()
            struct Refused: Error {}
            #expect(throws: Refused.self) { _ = try store.adoptRuns(runs) { run, _, _, _ in if run == count - 1 { throw Refused() } } }
            try checkCrashed(crashed("refused \(first)"), taken, hub)
            var seqs = Dictionary(grouping: taken, by: \.log).mapValues { $0.last!.seq }
            let last = try store.adoptRuns(runs) { run, log, lastSeq, tree in
                #expect(lastSeq == seqs[log] ?? 0 && tree.size == hub.part(first + run).last { $0.log == log }?.seq)
                seqs[log] = tree.size
                if run == count - 1 { try checkCrashed(crashed("within \(first) \(log)"), taken, hub) }
            }
            taken += group.flatMap { hub.part($0) }
            #expect(try commits() == before + 1)
            for (log, seq) in last { #expect(seqs[log] == seq) }
            try check(store, tally, taken, hub)
            try checkCrashed(crashed("behind \(first)"), taken, hub)
        }
        #expect(try store.adoptBlocking(hub.rest, secrets: hub.secrets).allSatisfy(\.isAccepted))
        try check(store, tally, hub.events, hub)
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("A flush that follows knows what was adopted: rows that the one before had in memory are read anew")
    func flushes() throws {
        let hub = try hub()
        let tally = Tally(savesSoon: false)
        let store = try EventStore.open(at: directory.store, options: options(tally))
        #expect(try store.adoptBlocking(hub.part(0), secrets: hub.secrets).allSatisfy(\.isAccepted))
        try store.flush()
        var taken = hub.part(0)
        for index in 1..<4 {
            // Alternately by run and event by event, with flushes between.
            if index % 2 == 1 {
                _ = try store.adoptRun(hub.runs[index].bytes, secrets: hub.secrets) { _, _ in }
            } else {
                _ = try store.adoptBlocking(hub.part(index), secrets: hub.secrets.filter { log, _ in !taken.contains { $0.log == log } })
            }
            taken += hub.part(index)
            try check(store, tally, taken, hub)
        }
        _ = try store.adoptBlocking(hub.rest, secrets: [:])
        try store.flush()
        try check(store, tally, hub.events, hub)
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("I2, I7: a run that does not follow, that is damaged or that the caller refuses changes nothing")
    func refused() throws {
        let hub = try hub()
        let tally = Tally(savesSoon: false)
        let store = try EventStore.open(at: directory.store, options: options(tally))
        func code(_ body: () throws -> Void) -> EventLogError.Code? {
            do {
                try body()
                return nil
            } catch { return (error as? EventLogError)?.code }
        }
        #expect(code { _ = try store.adoptRun(hub.runs[1].bytes, secrets: hub.secrets) { _, _ in } } == .invalidArgument)
        // Its own keys could hash it, and would prove nothing.
        #expect(code { _ = try store.adoptRun(hub.runs[0].bytes, secrets: [:]) { _, _ in } } == .invalidArgument)
        #expect(throws: SegmentError.self) { _ = try store.adoptRun(Array(hub.runs[0].bytes.dropLast()), secrets: hub.secrets) { _, _ in } }
        struct Refused: Error {}
        var seen = 0
        #expect(throws: Refused.self) {
            _ = try store.adoptRun(hub.runs[0].bytes, secrets: hub.secrets) { _, _ in
                seen += 1
                if seen == hub.runs[0].slices.count { throw Refused() }
            }
        }
        try check(store, tally, [], hub)
        #expect(try store.statistics().events == 0)
        // With other secrets the trees are others.
        #expect(throws: Refused.self) {
            _ = try store.adoptRun(hub.runs[0].bytes, secrets: hub.secrets.mapValues { _ in [UInt8](repeating: 1, count: 32) }) { log, tree in
                let events = hub.part(0).filter { $0.log == log }
                let expected = try HeadCache.extend(CompactRange(), with: events, seeds: PuncturedSeeds(secret: hub.secrets[log]!)!)
                if tree.root() != expected.root() { throw Refused() }
            }
        }
        _ = try store.adoptRun(hub.runs[0].bytes, secrets: hub.secrets) { _, _ in }
        #expect(code { _ = try store.adoptRun(hub.runs[0].bytes, secrets: hub.secrets) { _, _ in } } == .invalidArgument)
        try check(store, tally, hub.part(0), hub)
        try store.close()
        #expect(code { _ = try store.adoptRun(hub.runs[1].bytes, secrets: hub.secrets) { _, _ in } } == .closed)
        let reader = try EventStore.open(at: directory.store, options: StoreOptions(access: .readOnly))
        #expect(code { _ = try reader.adoptRun(hub.runs[1].bytes, secrets: hub.secrets) { _, _ in } } == .readOnly)
        try reader.close()
    }

    @Test("A crash between the journal's closing frame and the archive's word of it is none: the frame stands behind what was adopted")
    func closing() throws {
        let hub = try hub()
        let store = try EventStore.open(at: directory.store, options: options(nil))
        _ = try store.appendBlocking([created(50)])
        _ = try store.adoptRun(hub.runs[0].bytes, secrets: hub.secrets) { _, _ in }
        try store.journal!.close()
        try checkCrashed(crashed("closing"), hub.part(0), own: 1, hub)
    }

    @Test("Appends from many sides wait, and stand between the runs")
    func besideAppends() async throws {
        let hub = try hub()
        let tally = Tally(savesSoon: true)
        let store = try EventStore.open(at: directory.store, options: options(tally))
        _ = try store.appendBlocking([created(50)])
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<8 as Range<UInt64> {
                group.addTask {
                    for number in 0..<20 as Range<UInt64> { _ = try await store.append([sent(writer * 100 + number, in: 50, "w")]) }
                }
            }
            group.addTask { for run in hub.runs { _ = try store.adoptRun(run.bytes, secrets: hub.secrets) { _, _ in } } }
            try await group.waitForAll()
        }
        _ = try store.adoptBlocking(hub.rest, secrets: hub.secrets)
        try check(store, tally, hub.events, own: 161, hub)
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("I4: a flush that finds rows on their way saves with them what changed since, be it ever so little") func onTheirWay() throws {
        let hub = try hub()
        // Due with three rows.
        let tally = Tally(rowBytes: 64 << 10)
        let store = try EventStore.open(at: directory.store, options: options(tally))
        _ = try store.adoptRun(hub.runs[0].bytes, secrets: hub.secrets) { _, _ in }
        _ = try store.appendBlocking([created(50)])
        try store.flush()
        #expect(try store.statistics().projections["tally"] == store.lastPosition)
        try checkCrashed(crashed("flushed"), hub.part(0), own: 1, hub)
        try store.close()
    }

    @Test("I4: rows that could not be saved are saved with the next, by a run, a flush or the close", arguments: 1...5)
    func unsaved(_ failures: Int) throws {
        let hub = try hub()
        let tally = Tally(savesSoon: true)
        let store = try EventStore.open(at: directory.store, options: options(tally))
        var taken: [RecordedEvent] = []
        for (index, run) in hub.runs.enumerated() {
            let before = store.lastPosition
            // Each run has rows encoded, and writes those of the run before it.
            let encoding = store.foldProgress.withLock { $0.encoding }
            while let encoding, !encoding.isDone { usleep(1000) }
            tally.failures.set(index < failures)
            _ = try store.adoptRun(run.bytes, secrets: hub.secrets) { _, _ in }
            taken += hub.part(index)
            try checkCrashed(crashed("run \(index)"), taken, hub)
            #expect(try (store.statistics().projections["tally"] == before) == (index > failures || index == 0))
        }
        if failures % 2 == 0 {
            _ = try store.adoptBlocking(hub.rest, secrets: hub.secrets)
            taken = hub.events
        }
        if failures > hub.runs.count { #expect(throws: EventLogError.self) { try failures % 2 == 0 ? store.flush() : store.close() } }
        tally.failures.set(false)
        try store.close()
        try checkCrashed(directory.store, taken, hub)
    }

    /// What comes while adopted events are still to be folded.
    enum Behind: String, CaseIterable {
        case run, append, adoption, flush, checkpoint, rebuild, erasure, close

        fileprivate func act(on store: EventStore, _ hub: Hub) throws {
            switch self {
            case .run: try AdoptRunTests.adopt([3], in: store, hub)
            case .append: _ = try store.appendBlocking([created(50)])
            case .adoption: _ = try store.adoptBlocking(hub.part(3), secrets: hub.secrets)
            case .flush: try store.flush()
            case .checkpoint: _ = try store.makeCheckpoint()
            case .rebuild: try store.rebuild("tally")
            case .erasure: try store.erase(log: .conversation(conversation(1)), seq: 5)
            case .close: try store.close()
            }
        }
    }

    private static func adopt(_ indices: [Int], in store: EventStore, _ hub: Hub) throws {
        let runs = try indices.map { index in
            (run: try PreparedRun(hub.runs[index].bytes) { PuncturedSeeds(secret: hub.secrets[$0]!) }, secrets: hub.secrets)
        }
        _ = try store.adoptRuns(runs, foldsLater: true) { _, _, _, _ in }
    }

    @Test("I1, I4: what is folded later is kept at once; whoever comes behind finds it folded, once", arguments: Behind.allCases, [false, true])
    func foldsLater(_ behind: Behind, savesSoon: Bool) throws {
        let hub = try hub()
        let tally = Tally(savesSoon: savesSoon)
        let observed = Mutex<[Position]>([])
        // Held up between two runs of which one is folded.
        let mayGoOn = Monitor(true)
        var options = options(tally)
        options.observer = { events in
            let positions = events().map(\.position)
            observed.withLock { $0 += positions }
            mayGoOn.withLock(waitingWhile: { !$0 }) { _ in }
        }
        var store = try EventStore.open(at: directory.store, options: options)
        try Self.adopt([0], in: store, hub)
        store.endFolding()
        mayGoOn.withLock { $0 = false }
        try Self.adopt([1, 2], in: store, hub)
        #expect(store.lastPosition == Position((0..<3).reduce(0) { $0 + hub.part($1).count }))
        let end = Monitor<Result<Void, any Error>?>(nil)
        WorkerThread.start { [store] in
            let result = Result { try behind.act(on: store, hub) }
            end.withLock { $0 = result }
            end.wakeAll()
        }
        usleep(100_000)
        #expect(observed.withLock { $0.count } == hub.part(0).count + hub.part(1).count)
        if behind == .append { try checkCrashed(crashed("unfolded"), (0..<3).flatMap { hub.part($0) }, hub) }
        mayGoOn.withLock { $0 = true }
        mayGoOn.wakeAll()
        try end.withLock(waitingWhile: { $0 == nil }) { try $0!.get() }
        if behind == .close {
            store = try EventStore.open(at: directory.store, options: options)
        } else {
            store.endFolding()
            #expect(observed.withLock { $0 } == Array(1...store.lastPosition))
        }
        if behind == .erasure {
            let log = LogID.conversation(conversation(1))
            #expect(try tally.row(of: log, in: store)[0] == store.lastSeq(of: log))
        } else {
            let taken = (0..<([.run, .adoption].contains(behind) ? 4 : 3)).flatMap { hub.part($0) }
            try check(store, tally, taken, own: behind == .append ? 1 : 0, hub)
        }
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("Rows wait to be saved while more runs wait, until they are four times as many; no longer") func rowsWait() throws {
        let hub = try hub()
        func isEncoding(_ store: EventStore) -> Bool { store.foldProgress.withLock { $0.encoding != nil } }
        for (rowBytes, waits) in [(100 << 10, true), (400 << 10, false)] {
            let tally = Tally(rowBytes: rowBytes)
            let store = try EventStore.open(at: directory.path + "/\(rowBytes)", options: options(tally))
            for index in 0..<3 { try Self.adopt([index], in: store, hub) }
            #expect(isEncoding(store) == !waits)
            // Nothing waits behind it.
            _ = try store.adoptRun(hub.runs[3].bytes, secrets: hub.secrets) { _, _ in }
            #expect(isEncoding(store))
            try check(store, tally, (0..<4).flatMap { hub.part($0) }, own: 0, hub)
            try store.close()
            #expect(try EventStore.verify(at: directory.path + "/\(rowBytes)").problems == [])
        }
    }

    @Test("I6: a reader that was opened before logs were adopted verifies them all the same") func verifyBeside() throws {
        let hub = try hub()
        let store = try EventStore.open(at: directory.store)
        let reader = try EventStore.open(at: directory.store, options: StoreOptions(access: .readOnly))
        for index in 0..<3 { try Self.adopt([index], in: store, hub) }
        var report = VerifyReport()
        try reader.verifyLog(&report)
        #expect(report.problems == [] && report.events >= UInt64(hub.part(0).count))
        try reader.close()
        try store.close()
    }

    @Test("I6: an event that is refused takes no log's number: later logs keep their secrets")
    func numbers() throws {
        let hub = try hub()
        let store = try EventStore.open(at: directory.store, options: options(nil))
        var stray = hub.events[0]
        stray.log = .conversation(conversation(77))
        stray.seq = 4
        #expect(throws: EventLogError.self) { _ = try store.adoptBlocking([stray], secrets: [:]) }
        #expect(try store.adoptBlocking(hub.events, secrets: hub.secrets).allSatisfy(\.isAccepted))
        try store.flush()
        #expect(try store.heads() == hub.heads)
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }
}
