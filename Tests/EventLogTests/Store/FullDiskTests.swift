import Synchronization
import Testing

@testable import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A disk on which LMDB's commits fail while it is told to: LMDB says EIO when the system wrote only a part of its pages.
private final class ShortDisk: DiskFaults {
    private let commitsLeft = Atomic(Int.max)
    private let isFull: Bool

    init(isFull: Bool) { self.isFull = isFull }

    func set(fails: Bool) { set(commitsLeft: fails ? 0 : .max) }

    /// From now on so many commits have room.
    func set(commitsLeft: Int) { self.commitsLeft.store(commitsLeft, ordering: .relaxed) }
    var hasFailed: Bool { commitsLeft.load(ordering: .relaxed) < 0 }

    func willCommit(_ path: String) throws(SystemError) {
        if commitsLeft.wrappingSubtract(1, ordering: .relaxed).oldValue <= 0 { throw SystemError(call: "mdb_txn_commit", path: path, number: EIO) }
    }
    func hasNoRoom(_ path: String) -> Bool? { isFull }
}

/// A disk of which the syncs wait while they are told to, and the files grow by no more than so much.
private final class HeldDisk: DiskFaults {
    private let isHeld = Monitor(false)
    private let room = Atomic(Int.max)

    func hold() { isHeld.withLock { $0 = true } }
    func letGo() {
        isHeld.withLock {
            $0 = false
            isHeld.wakeAll()
        }
    }

    func set(roomBytes: Int) { room.store(roomBytes, ordering: .relaxed) }

    func willSync(_ path: String, _ descriptor: CInt) throws(SystemError) { isHeld.withLock(waitingWhile: { $0 }) { _ in } }

    func willWrite(_ path: String, _ descriptor: CInt, offset: Int, count: Int) throws(SystemError) -> (count: Int, failure: SystemError?) {
        var status = stat()
        let room = room.load(ordering: .relaxed)
        guard room < .max, fstat(descriptor, &status) == 0, case let growth = offset + count - Int(status.st_size), growth > 0 else { return (count, nil) }
        guard growth <= room else { return (0, SystemError(call: "pwrite", path: path, number: ENOSPC)) }
        self.room.subtract(growth, ordering: .relaxed)
        return (count, nil)
    }

    func willTruncate(_ path: String, _ descriptor: CInt, to size: Int) throws(SystemError) {
        var status = stat()
        guard room.load(ordering: .relaxed) < .max, fstat(descriptor, &status) == 0 else { return }
        room.add(max(Int(status.st_size) - size, 0), ordering: .relaxed)
    }
}

/// A disk that has done what it says it could not.
private final class DenyingDisk: DiskFaults {
    private let denies = Atomic(false)

    func set(denies: Bool) { self.denies.store(denies, ordering: .relaxed) }
    func didCommit(_ path: String) throws(SystemError) {
        if denies.load(ordering: .relaxed) { throw SystemError(call: "commit", path: path, number: EIO) }
    }
}

@Suite("A full disk") struct FullDiskTests {
    private let directory = TemporaryDirectory()
    private let log = LogID.conversation(conversation(1))

    @Test("A commit of the archive that is written in part is a full disk where there is no room, else an I/O error", arguments: [true, false])
    func commit(isFull: Bool) throws {
        let disk = ShortDisk(isFull: isFull)
        FaultyDisks.add(disk, for: directory.path)
        defer { FaultyDisks.remove(disk) }
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one")])
        disk.set(fails: true)
        let failure = #expect(throws: EventLogError.self) { try store.flush() }
        #expect(failure?.code == (isFull ? .diskFull : .inputOutput))
        // The events are safe in the journal, readable, and the store takes more.
        _ = try store.appendBlocking([sent(2, in: 1, "two")])
        #expect(try store.all().count == 3)
        disk.set(fails: false)
        try store.flush()
        _ = try store.appendBlocking([sent(3, in: 1, "three")])
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("I2: a commit of the archive that failed and has turned up is not made again: the store says so, and holds each event once when it is reopened")
    func turnedUp() throws {
        let disk = DenyingDisk()
        FaultyDisks.add(disk, for: directory.path)
        defer { FaultyDisks.remove(disk) }
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one")])
        disk.set(denies: true)
        #expect(throws: EventLogError.self) { try store.flush() }
        disk.set(denies: false)
        _ = try store.appendBlocking([sent(2, in: 1, "two")])
        let failure = #expect(throws: EventLogError.self) { try store.flush() }
        #expect(failure?.code == .unknownOutcome)
        #expect(throws: EventLogError.self) { try store.close() }
        let reopened = try EventStore.open(at: directory.store)
        #expect(try reopened.all().map(\.seq) == [1, 2, 3])
        try reopened.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("What there is no room for does not take others with it that wait for the same commit, and a nearly full disk takes what it can")
    func group() async throws {
        let disk = HeldDisk()
        FaultyDisks.add(disk, for: directory.path)
        defer { FaultyDisks.remove(disk) }
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), created(2), created(3)])
        #expect(store.writeFailure == nil)
        // The first is being synced while the others gather behind it.
        disk.hold()
        async let first = store.append([sent(1, in: 1, "first")])
        while store.queue.withLock({ !$0.isLed || !$0.requests.isEmpty }) { try await Task.sleep(for: .milliseconds(1)) }
        disk.set(roomBytes: 0)
        let large = String(repeating: "x", count: 1 << 20)
        var waiting: [Task<[AppendOutcome], any Error>] = []
        for submission in [sent(2, in: 1, large), sent(3, in: 2, "two"), sent(4, in: 3, large), sent(5, in: 3, "three")] {
            waiting.append(Task { try await store.append([submission]) })
            // Not on this thread: tasks of all tests share as few as there are cores.
            while store.queue.withLock({ $0.requests.count < waiting.count }) { try await Task.sleep(for: .milliseconds(1)) }
        }
        disk.letGo()
        _ = try await first
        var codes: [EventLogError.Code?] = []
        for task in waiting {
            do {
                guard case .accepted = try await task.value[0] else { throw EventLogError(.damaged, "not accepted") }
                codes.append(nil)
            } catch let error as EventLogError { codes.append(error.code) }
        }
        #expect(codes == [.diskFull, nil, .diskFull, nil])
        // Not for what the journal grows by, but for what is asked.
        disk.set(roomBytes: (1 << 20) + (192 << 10))
        for id in 6..<8 as Range<UInt64> { _ = try? store.appendBlocking([sent(id, in: 2, String(repeating: "y", count: 600_000))]) }
        #expect(store.writeFailure == nil)
        #expect(throws: EventLogError.self) { try store.appendBlocking([sent(9, in: 2, large)]) }
        #expect(store.writeFailure?.code == .diskFull && store.writeFailures == 2)
        store.lookForRoom()
        #expect(store.writeFailure?.code == .diskFull)
        disk.set(roomBytes: .max)
        store.lookForRoom()
        #expect(store.writeFailure == nil)
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
        let again = try EventStore.open(at: directory.store)
        #expect(try again.all().count == 8)
        try again.close()
    }

    @Test("An erasure for which there is no room changes nothing, and works once there is") func erasure() throws {
        let disk = ShortDisk(isFull: true)
        FaultyDisks.add(disk, for: directory.path)
        defer { FaultyDisks.remove(disk) }
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one"), sent(2, in: 1, "two")])
        try store.flush()
        let head = try store.head(of: log)
        disk.set(fails: true)
        let failure = #expect(throws: EventLogError.self) { try store.erase(log: log, seq: 2) }
        #expect(failure?.code == .diskFull)
        #expect(try store.event(in: log, at: 2)?.isErased == false)
        #expect(try KeyFile(reading: directory.store).next == nil)
        disk.set(fails: false)
        _ = try store.appendBlocking([sent(3, in: 1, "three")])
        try store.erase(log: log, seq: 2)
        #expect(try store.event(in: log, at: 2)?.isErased == true)
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
        let again = try EventStore.open(at: directory.store, options: StoreOptions(access: .readOnly))
        #expect(try again.proveConsistency(log: log, from: 3).json.contains(#require(head).root.base64))
        try again.close()
    }

    @Test("An erasure behind whose commit there is no room says that the event is erased, and what is to be built anew") func rebuilding() throws {
        let disk = ShortDisk(isFull: true)
        FaultyDisks.add(disk, for: directory.path)
        defer { FaultyDisks.remove(disk) }
        let tally = Tally(savesSoon: true)
        var options = StoreOptions()
        options.folds = [tally]
        let store = try EventStore.open(at: directory.store, options: options)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one"), sent(2, in: 1, "two")])
        try store.flush()
        disk.set(commitsLeft: 1)
        let failure = #expect(throws: EventLogError.self) { try store.erase(log: log, seq: 2) }
        #expect(failure?.code == .diskFull)
        let message = try #require(failure?.message)
        #expect(message.contains("seq 2 is erased") && message.contains("convstore rebuild") && !message.contains("nothing was written"), "\(message)")
        #expect(try store.event(in: log, at: 2)?.isErased == true)
        disk.set(fails: false)
        try store.close()
        let again = try EventStore.open(at: directory.store, options: options)
        #expect(try tally.row(of: log, in: again) == [3, 6, 3])
        try again.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("A copy for which there is no room says so of where it was to be, not of the store, and leaves nothing there") func copying() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one")])
        try store.close()
        let full = directory.path + "/full"
        try Directory.make(full)
        for commits in 0...2 {
            let disk = ShortDisk(isFull: true)
            FaultyDisks.add(disk, for: full)
            defer { FaultyDisks.remove(disk) }
            disk.set(commitsLeft: commits)
            let failure = #expect(throws: EventLogError.self) { try EventStore.copy(from: directory.store, to: full + "/copy") }
            #expect(failure?.code == .diskFull && failure?.message.hasPrefix(full + "/copy") ?? false, "\(commits): \(failure?.message ?? "")")
            #expect(try Directory.names(full) == [])
        }
    }

    @Test("A disk that is full at any commit of a close takes nothing; that an archive cannot be made smaller is no reason why a store should not close")
    func closing() throws {
        let text = (0..<100).map { _ in String(UInt64.random(in: 0...UInt64.max), radix: 36) }.joined()
        var outcomes: [(failed: Bool, code: EventLogError.Code?)] = []
        while outcomes.last?.failed ?? true {
            let path = directory.path + "/\(outcomes.count)"
            let disk = ShortDisk(isFull: true)
            FaultyDisks.add(disk, for: path)
            defer { FaultyDisks.remove(disk) }
            var options = StoreOptions()
            options.folds = [Tally(savesSoon: true)]
            let store = try EventStore.open(at: path, options: options)
            _ = try store.appendBlocking([created(1)])
            for round in 0..<8 as Range<UInt64> {
                _ = try store.appendBlocking((0..<40).map { sent(round * 40 + $0, in: 1, "\(round) \($0) " + String(text.shuffled())) })
                try store.flush()
            }
            _ = try store.appendBlocking([sent(1000, in: 1, "last")])
            #expect(try store.isWorthCompacting())
            let bytes = try File(path + "/archive", O_RDONLY).size
            disk.set(commitsLeft: outcomes.count)
            var code: EventLogError.Code?
            do { try store.close() } catch let error as EventLogError { code = error.code }
            outcomes.append((disk.hasFailed, code))
            let smaller = try File(path + "/archive", O_RDONLY).size < bytes
            #expect(smaller == !disk.hasFailed, "\(outcomes.count - 1) commits")
            disk.set(fails: false)
            #expect(try EventStore.verify(at: path).problems == [])
            #expect(try !Directory.names(path).contains { $0.contains(".new") }, "\(outcomes.count - 1) commits")
            let again = try EventStore.open(at: path, options: options)
            #expect(try again.all().count == 322)
            try again.close()
        }
        // Some commits are needed; the last ones write the archive anew.
        #expect(outcomes.first?.code == .diskFull)
        let needed = outcomes.prefix { $0.code != nil }
        let optional = outcomes[needed.count...].dropLast()
        #expect(needed.allSatisfy { $0.code == .diskFull } && optional.count >= 2 && optional.allSatisfy { $0.code == nil }, "\(outcomes)")
    }
}
