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

    func willCommit(_ path: String) throws(SystemError) {
        if commitsLeft.wrappingSubtract(1, ordering: .relaxed).oldValue <= 0 { throw SystemError(call: "mdb_txn_commit", path: path, number: EIO) }
    }
    func hasNoRoom(_ path: String) -> Bool? { isFull }

    func willOpen(_ path: String) throws(SystemError) {}
    func willWrite(_ path: String, _ descriptor: CInt, offset: Int, count: Int) throws(SystemError) -> (count: Int, failure: SystemError?) { (count, nil) }
    func willTruncate(_ path: String, _ descriptor: CInt, to size: Int) throws(SystemError) {}
    func willSync(_ path: String, _ descriptor: CInt) throws(SystemError) {}
    func didSync(_ path: String, _ descriptor: CInt) throws(SystemError) {}
    func willChangeNames(_ path: String) throws(SystemError) {}
    func didCommit(_ path: String) throws(SystemError) {}
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
}
