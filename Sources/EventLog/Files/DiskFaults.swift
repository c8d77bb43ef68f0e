internal import Synchronization

/// What a test does to a disk: told of each call that reads or changes files under its directory, before it is done. No production code has one.
///
/// Each may throw instead of letting the call through. `descriptor` stays the caller's.
package protocol DiskFaults: AnyObject, Sendable {
    func willOpen(_ path: String) throws(SystemError)
    /// Says how many of the bytes get through; if not all, the write fails after them as it says.
    func willWrite(_ path: String, _ descriptor: CInt, offset: Int, count: Int) throws(SystemError) -> (count: Int, failure: SystemError?)
    /// Of files that are read by calls; LMDB's are mapped.
    func willRead(_ path: String, offset: Int, count: Int) throws(SystemError)
    func willTruncate(_ path: String, _ descriptor: CInt, to size: Int) throws(SystemError)
    func willSync(_ path: String, _ descriptor: CInt) throws(SystemError)
    func didSync(_ path: String, _ descriptor: CInt) throws(SystemError)
    /// Before a rename, a removal or the syncing of a directory.
    func willChangeNames(_ path: String) throws(SystemError)
    /// Before and after a transaction of an LMDB environment, which syncs by itself.
    func willCommit(_ path: String) throws(SystemError)
    func didCommit(_ path: String) throws(SystemError)
    /// Whether the file system on which a path lies is full; `nil`: as it is.
    func hasNoRoom(_ path: String) -> Bool?
    /// Whether two names can be exchanged in one step, which not every file system can.
    var exchangesNames: Bool { get }
}

/// A disk that does what it is told: a fault says only where it differs.
extension DiskFaults {
    package func willOpen(_ path: String) throws(SystemError) {}
    package func willWrite(_ path: String, _ descriptor: CInt, offset: Int, count: Int) throws(SystemError) -> (count: Int, failure: SystemError?) {
        (count, nil)
    }
    package func willRead(_ path: String, offset: Int, count: Int) throws(SystemError) {}
    package func willTruncate(_ path: String, _ descriptor: CInt, to size: Int) throws(SystemError) {}
    package func willSync(_ path: String, _ descriptor: CInt) throws(SystemError) {}
    package func didSync(_ path: String, _ descriptor: CInt) throws(SystemError) {}
    package func willChangeNames(_ path: String) throws(SystemError) {}
    package func willCommit(_ path: String) throws(SystemError) {}
    package func didCommit(_ path: String) throws(SystemError) {}
    package func hasNoRoom(_ path: String) -> Bool? { nil }
    package var exchangesNames: Bool { true }
}

/// The disks that tests have put in the system's place, by the directories that they stand for.
package enum FaultyDisks {
    private static let isAny = Atomic(false)
    private static let disks = Monitor<[(directory: String, disk: any DiskFaults)]>([])

    package static func add(_ disk: any DiskFaults, for directory: String) {
        disks.withLock { $0.append((directory + "/", disk)) }
        isAny.store(true, ordering: .releasing)
    }

    package static func remove(_ disk: any DiskFaults) {
        disks.withLock { disks in
            disks.removeAll { $0.disk === disk }
            if disks.isEmpty { isAny.store(false, ordering: .releasing) }
        }
    }

    /// The disk on which a path lies, if a test has one there.
    @inline(__always) static func disk(of path: String) -> (any DiskFaults)? {
        guard isAny.load(ordering: .acquiring) else { return nil }
        return disks.withLock { disks in disks.first { path.hasPrefix($0.directory) }?.disk }
    }
}
