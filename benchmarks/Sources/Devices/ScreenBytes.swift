import EventLog
import Replication

/// What a device was sent until its first screen stood.
struct ScreenBytes {
    private(set) var bases = 0, states = 0, ranges = 0, secrets = 0, baseFrames = 0
    private(set) var events = 0, run = 0, notes = 0
    private(set) var other = 0, all = 0, out = 0
    /// When the last of it came.
    private(set) var lastAt: UInt64 = 0

    /// - Parameter frames: how many frames of events and states had been kept by then.
    init(_ passed: [Device.Passed], frames: Int) throws {
        var kept = 0
        for message in passed where kept < frames {
            let size = message.message.count
            guard message.isIn else {
                out += size
                continue
            }
            all += size
            lastAt = message.at
            switch try Frame(decoding: message.message) {
            case .base(let base):
                kept += 1
                bases += 1
                states += base.base.count
                ranges += base.range.count
                secrets += base.secret.count
                baseFrames += size
            case .segment(let segment):
                kept += 1
                run += segment.run.count
                notes += size - segment.run.count
                events += try SegmentCodec.decode(segment.run).count
            case .events(let frame):
                kept += 1
                run += size
                events += frame.items.count
            default: other += size
            }
        }
    }
}
