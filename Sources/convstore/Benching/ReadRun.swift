import ConversationStore
import Synchronization

/// Reads from several threads for a while, and how long each read took.
struct ReadRun {
    var reads: Int
    var seconds: Double
    /// Nanoseconds of reads, ascending; of very many a random sample.
    var nanoseconds: [UInt32]
    /// Messages or rows that came back.
    var values: Int

    private struct Sample {
        static let max = 1_000_000
        var nanoseconds: [UInt32] = []
        var reads = 0
        var values = 0

        mutating func take(_ duration: Duration, _ count: Int, _ random: inout SplitMix) {
            let time = UInt32(clamping: duration.components.seconds * 1_000_000_000 + duration.components.attoseconds / 1_000_000_000)
            reads += 1
            values += count
            if nanoseconds.count < Self.max {
                nanoseconds.append(time)
            } else {
                let place = Int(random.next() % UInt64(reads))
                if place < Self.max { nanoseconds[place] = time }
            }
        }
    }

    /// Reads so far, for the progress bar: each thread adds many at a time.
    private final class Counter: Sendable {
        static let step = 256
        let reads = Atomic(0)
    }

    static func run(_ kind: BenchRead.Kind, _ places: ReadPlaces, _ store: ConversationStore, threads: Int, seconds: Double) throws -> ReadRun {
        let results = Monitor<(left: Int, samples: [Sample], failure: (any Error)?)>((threads, [], nil))
        let counter = Counter()
        let start = ContinuousClock.now
        let end = start + .seconds(seconds)
        for thread in 0..<threads {
            WorkerThread.start {
                var sample = Sample()
                var failure: (any Error)?
                do { sample = try read(kind, places, store, until: end, seed: UInt64(thread), counter) } catch { failure = error }
                results.withLock { state in
                    state.left -= 1
                    state.samples.append(sample)
                    state.failure = state.failure ?? failure
                }
                results.wakeAll()
            }
        }
        var progress = ProgressBar("Reading")
        defer { progress.clear() }
        while results.withLock(waitingWhile: { $0.left > 0 }, atMostMilliseconds: 200, { $0.left }) > 0 {
            progress.update(
                done: (ContinuousClock.now - start).seconds, total: seconds, count: counter.reads.load(ordering: .relaxed), "reads")
        }
        return try results.withLock { state in
            if let failure = state.failure { throw failure }
            return ReadRun(
                reads: state.samples.reduce(0) { $0 + $1.reads }, seconds: (ContinuousClock.now - start).seconds,
                nanoseconds: state.samples.flatMap(\.nanoseconds).sorted(), values: state.samples.reduce(0) { $0 + $1.values })
        }
    }

    private static func read(
        _ kind: BenchRead.Kind, _ places: ReadPlaces, _ store: ConversationStore, until end: ContinuousClock.Instant, seed: UInt64,
        _ counter: Counter
    ) throws -> Sample {
        var random = SplitMix(state: seed &* 0x9E37_79B9_7F4A_7C15 &+ UInt64.random(in: 0...UInt64.max))
        var sample = Sample()
        var last = ContinuousClock.now
        repeat {
            let count: Int
            let start: ContinuousClock.Instant
            switch kind {
            case .timeline:
                let conversation = places.conversations[random.index(places.conversations.count)]
                start = .now
                count = try store.timeline(of: conversation)?.messages.count ?? 0
            case .lobby:
                let user = places.users[random.index(places.users.count)]
                start = .now
                count = try store.lobby(of: user).rows.count
            case .message:
                let place = places.messages[random.index(places.messages.count)]
                start = .now
                count = try store.message(in: place.conversation, at: place.seq) == nil ? 0 : 1
            case .window:
                let conversation = places.conversations[random.index(places.conversations.count)]
                start = .now
                count = try store.contextWindow(of: conversation, budget: 8000)?.messages.count ?? 0
            }
            last = .now
            sample.take(last - start, count, &random)
            if sample.reads % Counter.step == 0 { counter.reads.add(Counter.step, ordering: .relaxed) }
        } while last < end
        return sample
    }

    func print(_ kind: String, threads: Int, asJSON: Bool) throws {
        func microseconds(_ share: Double) -> Double {
            nanoseconds.isEmpty ? 0 : Double(nanoseconds[min(nanoseconds.count - 1, Int((Double(nanoseconds.count) * share).rounded(.up)) - 1)]) / 1000
        }
        let rate = seconds > 0 ? Double(reads) / seconds : 0
        let each = reads > 0 ? Double(values) / Double(reads) : 0
        if asJSON {
            var line = JSONLine()
            line.add("kind", kind)
            line.add("threads", threads)
            line.add("reads", reads)
            line.add("seconds", seconds, decimals: 3)
            line.add("reads_per_second", rate, decimals: 1)
            line.add("p50_us", microseconds(0.5), decimals: 2)
            line.add("p99_us", microseconds(0.99), decimals: 2)
            line.add("max_us", microseconds(1), decimals: 2)
            line.add("values_per_read", each, decimals: 2)
            return try line.print()
        }
        var table = Table([("", .left), ("", .right), ("", .left)])
        table.add("reads", Quantity.count(reads), "in \(Quantity.fixed(seconds, 2)) s, \(threads) at once")
        table.add("rate", Quantity.count(Int(rate)), "reads a second")
        table.add("median", Quantity.fixed(microseconds(0.5), 2), "µs")
        table.add("99 %", Quantity.fixed(microseconds(0.99), 2), "µs")
        table.add("longest", Quantity.fixed(microseconds(1), 2), "µs")
        table.add("values", Quantity.fixed(each, 1), "a read")
        try table.print()
    }
}

/// A generator that costs nothing beside what is measured.
private struct SplitMix {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = (state ^ state >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }

    mutating func index(_ count: Int) -> Int { Int(truncatingIfNeeded: next() >> 33) % count }
}
