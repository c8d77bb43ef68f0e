import EventLog
import FoundationEssentials
import Glibc

/// All trials of a run: engines in turn, round after round, so that what disturbs the machine disturbs each of them.
public struct Comparison {
    public struct Plan: Sendable {
        public var engines: [EngineKind]
        public var batches: [Int] = [1, 16, 256, 4096]
        public var rounds = 3
        /// Events that the store holds beforehand; 0: an empty store.
        public var preload = 0
        public var keepsIDs = true
        /// Scales how many events a trial appends.
        public var scale = 1.0

        public init(engines: [EngineKind]) { self.engines = engines }
    }

    /// What is measured: a section of the report.
    public struct Subject: Hashable, Sendable {
        public var title: String
        public var batch: Int
    }

    public struct Key: Hashable, Sendable {
        public var subject: Subject
        public var engine: EngineKind
    }

    public let items: [Item]
    public let plan: Plan
    /// A directory of this run's own on the disk that is measured.
    public let directory: String
    public private(set) var subjects: [Subject] = []
    public private(set) var trials: [Key: [Trial]] = [:]
    public private(set) var scans: [String: [EngineKind: [Double]]] = [:]
    /// Bytes of the closed database with all preloaded events, per event.
    public private(set) var sizes: [EngineKind: (bytes: Int, events: Int)] = [:]
    private let progress: (String) -> Void

    public init(items: [Item], plan: Plan, directory: String, progress: @escaping (String) -> Void) {
        (self.items, self.plan, self.directory, self.progress) = (items, plan, directory, progress)
    }

    /// How many events a trial of this batch size appends.
    private func count(_ batch: Int) -> Int {
        let commits: [(Int, Int)] = [(1, 4000), (16, 2000), (256, 300), (4096, 40)]
        let wanted = commits.last { $0.0 <= batch }?.1 ?? 4000
        return max(batch * 4, Int(Double(wanted * batch) * plan.scale) / batch * batch)
    }

    private mutating func record(_ title: String, _ batch: Int, _ engine: EngineKind, _ trial: Trial) {
        let subject = Subject(title: title, batch: batch)
        if !subjects.contains(subject) { subjects.append(subject) }
        trials[Key(subject: subject, engine: engine), default: []].append(trial)
        progress("\(title), \(batch) a commit: \(engine.rawValue) \(Int(trial.eventsPerSecond)) events/s")
    }

    private func fresh(_ name: String) throws -> String {
        let path = directory + "/" + name
        if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        // What earlier trials left to write back would be charged to this one.
        sync()
        return path
    }

    /// Appends to a new store.
    public mutating func appendToEmpty(title: String, batches: [Int], isDurable: Bool) throws {
        let options = EngineOptions(isDurable: isDurable, keepsIDs: plan.keepsIDs)
        for round in 0..<plan.rounds {
            for batch in batches {
                for engine in turn(round) {
                    let path = try fresh("empty")
                    let opened = try engine.open(directory: path, held: [], options: options)
                    let before = DeviceBytes.now(of: path)
                    var trial = try Trial.run(opened, items[..<min(items.count, count(batch))], batch: batch, directory: path)
                    try opened.close()
                    sync()
                    trial.closedDeviceBytes = DeviceBytes.now(of: path).device(since: before)
                    record(title, batch, engine, trial)
                }
            }
        }
        try FileManager.default.removeItem(atPath: directory + "/empty")
    }

    /// The store under many tasks that append one event each, beside one such task.
    public mutating func appendConcurrently(title: String, writers: [Int]) async throws {
        guard plan.engines.contains(.convstore) else { return }
        for _ in 0..<plan.rounds {
            for writers in writers {
                let path = try fresh("empty")
                let opened = try ConvstoreEngine(directory: path, held: [], options: EngineOptions())
                let share = items[..<min(items.count, count(1) * min(writers, 16))]
                let trial = try await opened.appendConcurrently(share, writers: writers, directory: path)
                try opened.close()
                record("\(title), \(writers) concurrent", 1, .convstore, trial)
            }
        }
        try FileManager.default.removeItem(atPath: directory + "/empty")
    }

    /// The engines, each round beginning with another.
    private func turn(_ round: Int) -> [EngineKind] {
        let first = round % plan.engines.count
        return Array(plan.engines[first...] + plan.engines[..<first])
    }

    /// Builds each engine's store of the first `preload` events, and takes its size once it is closed.
    public mutating func preload() throws {
        for engine in plan.engines {
            let path = try fresh("preloaded-" + engine.rawValue)
            let opened = try engine.open(directory: path, held: [], options: EngineOptions(isDurable: false, keepsIDs: plan.keepsIDs))
            let before = DeviceBytes.now(of: path)
            let trial = try Trial.run(opened, items[..<plan.preload], batch: 4096, directory: path)
            try opened.close()
            sync()
            let written = DeviceBytes.now(of: path).device(since: before) ?? 0
            let bytes = DeviceBytes.used(by: path)
            sizes[engine] = (bytes, plan.preload)
            progress(
                "\(engine.rawValue): \(plan.preload) events at \(Int(trial.eventsPerSecond)) events/s, \(bytes) bytes closed, \(written) written"
            )
        }
        for engine in plan.engines where engine.canScan { try check(engine, directory + "/preloaded-" + engine.rawValue) }
    }

    /// What comes out must be what went in: an engine that loses or garbles events is no peer.
    private func check(_ engine: EngineKind, _ path: String) throws {
        let opened = try engine.open(directory: path, held: items[..<plan.preload], options: EngineOptions(keepsIDs: plan.keepsIDs))
        var (at, wrong) = (0, 0)
        _ = try opened.scan(.commit) { recorded in
            if at >= plan.preload || recorded.event != items[at].event || recorded.position != Position(at + 1) { wrong += 1 }
            at += 1
        }
        try opened.close()
        guard at == plan.preload, wrong == 0 else {
            throw EngineError("\(engine.rawValue): \(at) events of \(plan.preload) came back, \(wrong) of them wrong")
        }
    }

    /// Appends to a copy of the preloaded store.
    public mutating func appendToPreloaded(title: String, batches: [Int]) throws {
        for round in 0..<plan.rounds {
            for engine in turn(round) {
                let path = directory + "/held"
                if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
                try FileManager.default.copyItem(atPath: directory + "/preloaded-" + engine.rawValue, toPath: path)
                sync()
                let opened = try engine.open(
                    directory: path, held: items[..<plan.preload], options: EngineOptions(isDurable: true, keepsIDs: plan.keepsIDs))
                var at = plan.preload
                for (index, batch) in batches.enumerated() {
                    // What is left of the data is shared among the batch sizes.
                    let share = (items.count - at) / (batches.count - index)
                    let wanted = max(batch, min(count(batch), share) / batch * batch)
                    let end = min(items.count, at + wanted)
                    record(title, batch, engine, try Trial.run(opened, items[at..<end], batch: batch, directory: path))
                    at = end
                }
                try opened.close()
            }
        }
        try FileManager.default.removeItem(atPath: directory + "/held")
    }

    /// Reads all of the preloaded store into Swift values, from a warm page cache.
    public mutating func scan() throws {
        for round in 0..<plan.rounds {
            // The store has no order by conversation: reading each by itself decodes every run many times over.
            for order in ScanOrder.allCases {
                for engine in turn(round) where engine.canScan && (engine, order) != (.convstore, .conversation) {
                    let opened = try engine.open(
                        directory: directory + "/preloaded-" + engine.rawValue, held: items[..<plan.preload],
                        options: EngineOptions(keepsIDs: plan.keepsIDs))
                    var bytes = 0
                    let start = Trial.nanoseconds()
                    let count = try opened.scan(order) { bytes &+= Int($0.seq) &+ $0.event.author.string.utf8.count }
                    let seconds = Double(Trial.nanoseconds() - start) / 1e9
                    try opened.close()
                    guard count == plan.preload, bytes > 0 else {
                        throw EngineError("\(engine.rawValue): \(count) events of \(plan.preload) came back")
                    }
                    scans[order.rawValue, default: [:]][engine, default: []].append(Double(count) / seconds)
                    progress("scan in \(order.rawValue) order: \(engine.rawValue) \(Int(Double(count) / seconds)) events/s")
                }
            }
        }
    }
}
