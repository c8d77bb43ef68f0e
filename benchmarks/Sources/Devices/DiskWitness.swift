import Foundation
import Glibc
import Synchronization

/// Watches the disks under some directories while something is measured, and notes when one stalls: when it has requests and completes none.
///
/// It reads what the kernel counts (`/sys/dev/block/…/stat`, Documentation/block/stat.rst) once in a millisecond and asks the disk for nothing. A disk that
/// many machines share stalls now and then for 50 to 700 ms, whoever asks and for what: then every commit waits, and no store can do anything about it.
final class DiskWitness: Sendable {
    /// A time in which a request waited and none was completed, of a monotonic clock.
    struct Stall {
        let begin: UInt64, end: UInt64
    }

    /// What is less than this, in nanoseconds, is a slow request and no stall.
    private static let leastStall: UInt64 = 5_000_000

    private let found = Mutex<[Stall]>([])
    private let isWatching = Mutex(true)
    private let ended = DispatchSemaphore(value: 0)
    private let disks: Int

    /// - Parameter directories: Where the stores lie. What lies in memory is no disk.
    init(_ directories: [String]) {
        let files = Set(directories.compactMap(Self.counters)).sorted()
        disks = files.count
        for file in files {
            let thread = Thread { [self] in
                watch(file)
                ended.signal()
            }
            thread.qualityOfService = .userInteractive
            thread.start()
        }
    }

    /// The stalls, once: then nothing is watched any more. `nil` where there is no disk to be watched.
    func stop() -> [Stall]? {
        isWatching.withLock { $0 = false }
        for _ in 0..<disks { ended.wait() }
        return disks > 0 ? found.withLock { $0 }.sorted { $0.begin < $1.begin } : nil
    }

    /// The file with what the kernel counts of the disk under a directory.
    private static func counters(under directory: String) -> String? {
        var status = stat()
        guard stat(directory, &status) == 0 else { return nil }
        // What `major` and `minor` of makedev(3) are; as macros Swift does not see them.
        let device = UInt64(status.st_dev)
        let (major, minor) = (device >> 8 & 0xfff | device >> 32 & ~0xfff, device & 0xff | device >> 12 & ~0xff)
        let file = "/sys/dev/block/\(major):\(minor)/stat"
        return access(file, R_OK) == 0 ? file : nil
    }

    private func watch(_ file: String) {
        var before: (completed: UInt64, inFlight: UInt64)?
        var stall: Stall?
        var due = nanoseconds()
        while isWatching.withLock({ $0 }) {
            let now = nanoseconds()
            let counters = Self.read(file)
            if let counters, let before, counters.completed == before.completed, counters.inFlight > 0, before.inFlight > 0 {
                // Only what was seen counts: a witness that came late has not seen what was completed meanwhile.
                stall = Stall(begin: stall?.begin ?? now, end: now)
            } else {
                if let stall, stall.end - stall.begin >= Self.leastStall { found.withLock { $0.append(stall) } }
                stall = nil
            }
            before = counters
            due = max(due + 1_000_000, now)
            sleep(until: due)
        }
    }

    private static func read(_ path: String) -> (completed: UInt64, inFlight: UInt64)? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        let text = String(unsafeUninitializedCapacity: 512) { max(0, Glibc.read(file, $0.baseAddress, 512)) }
        let fields = text.split(separator: " ").compactMap { UInt64($0.filter(\.isNumber)) }
        guard fields.count > 8 else { return nil }
        // Reads, writes, discards, flushes.
        return ([0, 4, 11, 15].reduce(0) { $0 + (fields.indices.contains($1) ? fields[$1] : 0) }, fields[8])
    }
}
