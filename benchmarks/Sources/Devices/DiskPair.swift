import Foundation
import Glibc
import Synchronization

/// The least that two ends cost which keep each event: one thread writes what is due into a file and syncs it, and a second one does the same behind it with
/// another file. Nobody who keeps events at a hub and then at a device is sooner on the same disk.
enum DiskPair {
    private static let eventBytes = 512

    /// How many events the first file has.
    private final class Kept: Sendable {
        let count = Atomic<Int>(0)
        let more = DispatchSemaphore(value: 0)
    }

    /// Nanoseconds from when each event was due until the second file had it.
    static func delays(in directory: String, rate: Int, seconds: Int) async throws -> [UInt64] {
        let count = rate * seconds
        let first = try file(directory + "/first", events: count), second = try file(directory + "/second", events: count)
        defer { for file in [first, second] { close(file) } }
        let kept = Kept()
        let start = nanoseconds() + 100_000_000
        let due: @Sendable (Int) -> UInt64 = { start + UInt64($0) * 1_000_000_000 / UInt64(rate) }
        let upper = Task {
            await onThread {
                var done = 0
                while done < count {
                    sleep(until: due(done))
                    let now = nanoseconds()
                    let end = min(count, max(done + 1, Int((now - start) * UInt64(rate) / 1_000_000_000) + 1))
                    keep(done..<end, in: first)
                    done = end
                    kept.count.store(done, ordering: .releasing)
                    kept.more.signal()
                }
            }
        }
        let delays = await onThread {
            var delays: [UInt64] = []
            while delays.count < count {
                kept.more.wait()
                let end = kept.count.load(ordering: .acquiring)
                if end == delays.count { continue }
                keep(delays.count..<end, in: second)
                let now = nanoseconds()
                while delays.count < end { delays.append(now - due(delays.count)) }
            }
            return delays
        }
        await upper.value
        return delays
    }

    /// Written with zeros, as our journal is: so a sync has no metadata to write.
    private static func file(_ path: String, events: Int) throws -> CInt {
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw DeviceError("\(path) cannot be made: \(errno)") }
        let zeros = [UInt8](repeating: 0, count: eventBytes)
        for number in 0..<events { pwrite(file, zeros, eventBytes, off_t(number * eventBytes)) }
        guard fsync(file) == 0 else { throw DeviceError("\(path) cannot be synced: \(errno)") }
        return file
    }

    private static func keep(_ events: Range<Int>, in file: CInt) {
        let bytes = [UInt8](repeating: UInt8.random(in: 1...255), count: events.count * eventBytes)
        pwrite(file, bytes, bytes.count, off_t(events.lowerBound * eventBytes))
        fdatasync(file)
    }
}
