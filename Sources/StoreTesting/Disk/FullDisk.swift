#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif
package import EventLog
import Synchronization

/// A disk on which, while it is told so, no file becomes larger than it is.
package final class FullDisk: DiskFaults {
    private let isFull = Atomic(false)
    private let isBroken = Atomic(false)

    /// For the files under a directory, until ``remove()``.
    package init(_ directory: String) { FaultyDisks.add(self, for: directory) }

    package func remove() { FaultyDisks.remove(self) }
    package func set(isFull: Bool) { self.isFull.store(isFull, ordering: .relaxed) }
    /// Syncs fail from now on.
    package func breakDown() { isBroken.store(true, ordering: .relaxed) }

    package func willWrite(_ path: String, _ descriptor: CInt, offset: Int, count: Int) throws(SystemError) -> (count: Int, failure: SystemError?) {
        var status = stat()
        guard isFull.load(ordering: .relaxed), fstat(descriptor, &status) == 0, Int(status.st_size) < offset + count else { return (count, nil) }
        return (0, SystemError(call: "pwrite", path: path, number: ENOSPC))
    }

    package func willSync(_ path: String, _ descriptor: CInt) throws(SystemError) {
        if isBroken.load(ordering: .relaxed) { throw SystemError(call: "fdatasync", path: path, number: EIO) }
    }

    package func willOpen(_ path: String) throws(SystemError) {}
    package func willTruncate(_ path: String, _ descriptor: CInt, to size: Int) throws(SystemError) {}
    package func didSync(_ path: String, _ descriptor: CInt) throws(SystemError) {}
    package func willChangeNames(_ path: String) throws(SystemError) {}
    package func willCommit(_ path: String) throws(SystemError) {}
    package func didCommit(_ path: String) throws(SystemError) {}
}
