import FoundationEssentials

/// A state comparison's figures: medians over the rounds.
public struct StateReport: Encodable {
    struct Append: Encodable {
        var store: String
        var batch: Int
        var engine: StateEngineKind
        var eventsPerSecond: Double
        /// To RocksDB.
        var ratio: Double?
        var p50Us, p99Us: Double
        var processorUsPerEvent, bytesWrittenPerEvent: Double
        var deviceBytesPerEvent: Double?
        var rounds: [Double]
    }

    struct Read: Encodable {
        var what: ReadKind
        var threads: Int
        var engine: StateEngineKind
        var rowsPerRead: Double
        var p50Us, p99Us, readsPerSecond: Double
        /// To SQLite, from as many threads.
        var ratio: Double?
        /// To one thread of the same engine.
        var speedup: Double?
        var rounds: [Double]
    }

    struct Window: Encodable {
        /// Among which conversations.
        var what: ReadKind
        var engine: StateEngineKind
        var messages: Double
        var p50Us, p99Us, pageP50Us, pageP99Us: Double
        /// To the pages of as many messages.
        var ratio: Double
        var rounds: [Double]
    }

    struct Build: Encodable {
        /// How it is built.
        var way: String
        var engine: StateEngineKind
        var eventsPerSecond: Double
        /// With the time in which the events were read from their JSONL.
        var eventsPerSecondFromJSONL: Double?
        /// To SQLite.
        var ratio: Double?
        var processorUsPerEvent: Double
        var rounds: [Double]
    }

    struct Size: Encodable {
        var engine: StateEngineKind
        var bytes: Int
        var bytesPerEvent: Double
        /// To RocksDB.
        var ratio: Double?
    }

    var machine: String
    var input: String
    var events: Int
    var preload: Int
    var seed: UInt64
    var appends: [Append] = []
    var reads: [Read] = []
    var windows: [Window] = []
    var builds: [Build] = []
    var sizes: [Size] = []

    public init(_ comparison: StateComparison, machine: String, input: String) {
        (self.machine, self.input, events) = (machine, input, comparison.items.count)
        (preload, seed) = (comparison.plan.preload, comparison.plan.seed)
        let engines = comparison.plan.engines
        for subject in comparison.appendSubjects {
            let all = comparison.appends[subject] ?? [:]
            let base = all[.rocksdb].map { median($0.map(\.eventsPerSecond)) }
            for engine in engines { if let trials = all[engine] { appends.append(Self.append(subject, engine, trials, base)) } }
        }
        for kind in ReadKind.allCases {
            for threads in comparison.plan.threads {
                let rate = { (engine: StateEngineKind, threads: Int) in
                    comparison.reads[.init(kind: kind, threads: threads)]?[engine].map { median($0.map(\.readsPerSecond)) }
                }
                for engine in engines {
                    guard let trials = comparison.reads[.init(kind: kind, threads: threads)]?[engine], let own = rate(engine, threads)
                    else { continue }
                    let count = trials.map(\.reads.count).reduce(0, +)
                    reads.append(
                        Read(
                            what: kind, threads: threads, engine: engine,
                            rowsPerRead: Double(trials.map(\.sum.rows).reduce(0, +)) / Double(count),
                            p50Us: median(trials.map { $0.percentile(0.5) }), p99Us: median(trials.map { $0.percentile(0.99) }),
                            readsPerSecond: own, ratio: rate(.sqlite, threads).map { own / $0 },
                            speedup: threads == 1 ? nil : rate(engine, 1).map { own / $0 }, rounds: trials.map(\.readsPerSecond)))
                }
            }
        }
        for kind in ReadKind.allCases {
            for engine in engines { if let trials = comparison.windows[kind]?[engine] { windows.append(Self.window(kind, engine, trials)) } }
        }
        let base = comparison.builds[.sqlite].map { median($0.map(\.seconds)) }
        for engine in engines {
            for (way, trials) in [("by conversation, in memory", comparison.builds[engine]), ("event by event", comparison.replays[engine])] {
                guard let trials else { continue }
                let seconds = median(trials.map(\.seconds))
                builds.append(
                    Build(
                        way: way, engine: engine, eventsPerSecond: Double(events) / seconds,
                        eventsPerSecondFromJSONL: comparison.secondsToRead.map { Double(events) / (seconds + $0) }, ratio: base.map { $0 / seconds },
                        processorUsPerEvent: median(trials.map { $0.processorSeconds * 1e6 / Double(comparison.items.count) }),
                        rounds: trials.map { Double(comparison.items.count) / $0.seconds }))
            }
        }
        for engine in engines {
            guard let bytes = comparison.sizes[engine] else { continue }
            sizes.append(
                Size(
                    engine: engine, bytes: bytes, bytesPerEvent: Double(bytes) / Double(events),
                    ratio: comparison.sizes[.rocksdb].map { Double(bytes) / Double($0) }))
        }
    }

    private static func window(_ kind: ReadKind, _ engine: StateEngineKind, _ trials: [WindowTrial]) -> Window {
        Window(
            what: kind, engine: engine, messages: Double(trials.map(\.messages).reduce(0, +)) / Double(trials.map(\.windows.count).reduce(0, +)),
            p50Us: median(trials.map { $0.percentile(0.5, of: $0.windows) }), p99Us: median(trials.map { $0.percentile(0.99, of: $0.windows) }),
            pageP50Us: median(trials.map { $0.percentile(0.5, of: $0.pages) }), pageP99Us: median(trials.map { $0.percentile(0.99, of: $0.pages) }),
            ratio: median(trials.map(\.ratio)), rounds: trials.map(\.ratio))
    }

    private static func append(
        _ subject: StateComparison.AppendSubject, _ engine: StateEngineKind, _ trials: [Trial], _ base: Double?
    ) -> Append {
        let own = median(trials.map(\.eventsPerSecond))
        return Append(
            store: subject.title, batch: subject.batch, engine: engine, eventsPerSecond: own, ratio: base.map { own / $0 },
            p50Us: median(trials.map { $0.percentile(0.5) }), p99Us: median(trials.map { $0.percentile(0.99) }),
            processorUsPerEvent: median(trials.map { $0.processorSeconds * 1e6 / Double($0.events) }),
            bytesWrittenPerEvent: median(trials.map { Double($0.writtenBytes) / Double($0.events) }),
            deviceBytesPerEvent: trials.compactMap { trial in trial.deviceBytes.map { Double($0) / Double(trial.events) } }.min(),
            rounds: trials.map(\.eventsPerSecond))
    }

    public var json: String {
        get throws {
            let encoder = JSONEncoder()
            encoder.keyEncodingStrategy = .convertToSnakeCase
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        }
    }

    public var markdown: String {
        var lines = ["\(machine); data: \(input); seed \(seed).", ""]
        lines += table(
            ["read", "threads", "engine", "rows a read", "p50 us", "p99 us", "reads/s", "÷ SQLite", "÷ one thread"], labels: 3,
            reads.map { row in
                [
                    row.what.rawValue, "\(row.threads)", row.engine.rawValue, fixed(row.rowsPerRead, 1), fixed(row.p50Us, 1),
                    fixed(row.p99Us, 1), grouped(row.readsPerSecond), ratio(row.ratio), ratio(row.speedup),
                ]
            })
        lines += table(
            ["window of \(grouped(Double(WindowTrial.budget))) tokens, as", "engine", "messages", "p50 us", "p99 us", "page p50 us", "page p99 us", "÷ page"],
            labels: 2,
            windows.map { row in
                [
                    row.what.rawValue, row.engine.rawValue, fixed(row.messages, 1), fixed(row.p50Us, 1), fixed(row.p99Us, 1), fixed(row.pageP50Us, 1),
                    fixed(row.pageP99Us, 1), fixed(row.ratio, 2),
                ]
            })
        lines += table(
            [
                "durable append, all state kept, to", "events a commit", "engine", "events/s", "÷ RocksDB", "p50 us", "p99 us", "processor us/event",
                "bytes/event written", "device bytes/event",
            ], labels: 3,
            appends.map { row in
                [
                    row.store, "\(row.batch)", row.engine.rawValue, grouped(row.eventsPerSecond), ratio(row.ratio), grouped(row.p50Us),
                    grouped(row.p99Us), fixed(row.processorUsPerEvent, 1), grouped(row.bytesWrittenPerEvent),
                    row.deviceBytesPerEvent.map(grouped) ?? "",
                ]
            })
        lines += table(
            ["build of all state of \(grouped(Double(events))) events", "engine", "events/s", "÷ SQLite", "processor us/event", "events/s, JSONL read"],
            labels: 2,
            builds.map { row in
                [
                    row.way, row.engine.rawValue, grouped(row.eventsPerSecond), ratio(row.ratio), fixed(row.processorUsPerEvent, 2),
                    row.eventsPerSecondFromJSONL.map(grouped) ?? "",
                ]
            })
        lines += table(
            ["closed store of \(grouped(Double(events))) events and their state", "bytes (du)", "bytes/event", "÷ RocksDB"], labels: 1,
            sizes.map { [$0.engine.rawValue, grouped(Double($0.bytes)), fixed($0.bytesPerEvent, 1), ratio($0.ratio)] })
        return lines.joined(separator: "\n")
    }

    private func ratio(_ value: Double?) -> String { value.map { fixed($0, 2) } ?? "" }

    /// Lines of a Markdown table, numbers to the right; none without rows.
    private func table(_ head: [String], labels: Int, _ rows: [[String]]) -> [String] {
        guard !rows.isEmpty else { return [] }
        let rule = head.indices.map { $0 < labels ? "---" : "---:" }
        return ([head, rule] + rows).map { "| " + $0.joined(separator: " | ") + " |" } + [""]
    }
}
