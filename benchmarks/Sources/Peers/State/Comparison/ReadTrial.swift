import Dispatch
import Synchronization

/// One engine's reads of one kind, once.
struct ReadTrial: Sendable {
    var seconds = 0.0
    /// Microseconds of each read, ascending.
    var reads: [Double] = []
    var sum = ReadSum()

    var readsPerSecond: Double { Double(reads.count) / seconds }

    func percentile(_ share: Double) -> Double { reads.isEmpty ? 0 : reads[min(reads.count - 1, Int(Double(reads.count) * share))] }

    /// A thread's reader, which goes to that thread and nowhere else.
    private struct Lane: @unchecked Sendable {
        let reader: any StateReader
        let reads: [ReadTargets.Read]
    }

    /// Reads each list from a thread of its own, at once. They are read once before, untimed, so that what is timed is warm.
    static func run(_ engine: any ReadEngine, _ lists: [[ReadTargets.Read]]) throws -> ReadTrial {
        let lanes = try lists.map { Lane(reader: try engine.reader(), reads: $0) }
        for lane in lanes { _ = try run(lane) }
        let results = Mutex<[Result<ReadTrial, any Error>]>([])
        let start = Trial.nanoseconds()
        if lanes.count == 1 {
            let result = Result { try run(lanes[0]) }
            results.withLock { $0.append(result) }
        } else {
            DispatchQueue.concurrentPerform(iterations: lanes.count) { index in
                let result = Result { try run(lanes[index]) }
                results.withLock { $0.append(result) }
            }
        }
        var trial = ReadTrial(seconds: Double(Trial.nanoseconds() - start) / 1e9)
        for result in results.withLock({ $0 }) {
            let part = try result.get()
            trial.reads += part.reads
            trial.sum += part.sum
        }
        trial.reads.sort()
        for lane in lanes { try lane.reader.close() }
        return trial
    }

    private static func run(_ lane: Lane) throws -> ReadTrial {
        var trial = ReadTrial()
        trial.reads.reserveCapacity(lane.reads.count)
        var last = Trial.nanoseconds()
        for read in lane.reads {
            switch read {
            case .page(let conversation): trial.sum += try lane.reader.readPage(of: conversation, limit: ReadKind.rows)
            case .lobby(let user): trial.sum += try lane.reader.readLobby(of: user, limit: ReadKind.rows)
            case .message(let conversation, let seq): trial.sum += try lane.reader.readMessage(in: conversation, seq: seq)
            }
            let now = Trial.nanoseconds()
            trial.reads.append(Double(now - last) / 1000)
            last = now
        }
        return trial
    }
}
