import Foundation
import Glibc
import Synchronization

/// The least that two ends cost which keep each event: one thread writes what is due into a file and syncs it, and a second one does the same behind it with
/// another file. Nobody who keeps events at a hub and then at a device is sooner on the same disks.
///
/// It takes turns with what is measured, since a disk that many machines share is fast in one minute and slow in the next.
final class DiskPair {
    private static let eventBytes = 512

    /// How many events the first file has.
    private final class Kept: Sendable {
        let count = Atomic<Int>(0)
        let more = DispatchSemaphore(value: 0)
    }

    private let first: Scratch, second: Scratch
    private let rate: Int
    private var used = 0
    /// Nanoseconds from when each event was due until the second file had it, of all turns.
    private(set) var delays: [UInt64] = []

    /// - Parameters:
    ///   - hub: The directory of the first file.
    ///   - device: The directory of the second.
    ///   - rate: Events a second.
    ///   - seconds: Of all turns.
    init(hub: String, device: String, rate: Int, seconds: Int) throws {
        self.rate = rate
        let bytes = rate * seconds * Self.eventBytes
        first = try Scratch(hub + "/disk-first", bytes: bytes)
        second = try Scratch(device + "/disk-second", bytes: bytes)
    }

    /// A turn. Whoever else uses these disks should rest meanwhile.
    func run(seconds: Int) async {
        let begin = used, end = used + rate * seconds, rate = rate
        used = end
        let kept = Kept()
        kept.count.store(begin, ordering: .relaxed)
        let start = nanoseconds() + 100_000_000
        let due: @Sendable (Int) -> UInt64 = { start + UInt64($0 - begin) * 1_000_000_000 / UInt64(rate) }
        let upper = Task { [first] in
            await onThread {
                var done = begin
                while done < end {
                    sleep(until: due(done))
                    let late = begin + Int((nanoseconds() - start) * UInt64(rate) / 1_000_000_000) + 1
                    let next = min(end, max(done + 1, late))
                    first.keep(done..<next)
                    done = next
                    kept.count.store(done, ordering: .releasing)
                    kept.more.signal()
                }
            }
        }
        delays += await onThread { [second] in
            var delays: [UInt64] = []
            var done = begin
            while done < end {
                kept.more.wait()
                let next = kept.count.load(ordering: .acquiring)
                if next == done { continue }
                second.keep(done..<next)
                let now = nanoseconds()
                delays += (done..<next).map { now - due($0) }
                done = next
            }
            return delays
        }
        await upper.value
    }

    /// A file that is gone when it is closed.
    private final class Scratch: Sendable {
        private let file: CInt

        /// Written with zeros, as our journal is: so a sync has no metadata to write.
        init(_ path: String, bytes: Int) throws {
            file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            guard file >= 0 else { throw DeviceError("\(path) cannot be made: \(errno)") }
            unlink(path)
            let zeros = [UInt8](repeating: 0, count: bytes)
            guard pwrite(file, zeros, bytes, 0) == bytes, fsync(file) == 0 else { throw DeviceError("\(path) cannot be written: \(errno)") }
        }

        deinit { close(file) }

        func keep(_ events: Range<Int>) {
            let bytes = [UInt8](repeating: UInt8.random(in: 1...255), count: events.count * eventBytes)
            pwrite(file, bytes, bytes.count, off_t(events.lowerBound * eventBytes))
            fdatasync(file)
        }
    }
}
