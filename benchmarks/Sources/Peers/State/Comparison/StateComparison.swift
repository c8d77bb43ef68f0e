import FoundationEssentials
import Glibc

/// All trials of engines that keep state: engines in turn, round after round, each round beginning with another.
public struct StateComparison {
    public struct Plan: Sendable {
        public var engines: [StateEngineKind]
        public var batches: [Int] = [1, 256, 4096]
        public var rounds = 3
        /// Events that a preloaded store holds.
        public var preload = 900_000
        public var threads = [1, 2]
        /// Scales the number of events and reads a trial.
        public var scale = 1.0
        public var seed: UInt64 = 1

        public init(engines: [StateEngineKind]) { self.engines = engines }
    }

    struct AppendSubject: Hashable {
        var title: String
        var batch: Int
    }

    struct BuildTrial {
        var seconds: Double
        var processorSeconds: Double
    }

    struct ReadSubject: Hashable {
        var kind: ReadKind
        var threads: Int
    }

    public let plan: Plan
    let items: [Item]
    /// How long it took to read the items from JSONL; `nil` if they came otherwise.
    public var secondsToRead: Double?
    private let targets: ReadTargets
    private let directory: String
    private let progress: (String) -> Void
    var appendSubjects: [AppendSubject] = []
    var appends: [AppendSubject: [StateEngineKind: [Trial]]] = [:]
    var reads: [ReadSubject: [StateEngineKind: [ReadTrial]]] = [:]
    /// Context windows beside pages; by whose reads are chosen among.
    var windows: [ReadKind: [StateEngineKind: [WindowTrial]]] = [:]
    /// Of all state of all events.
    var builds: [StateEngineKind: [BuildTrial]] = [:]
    /// The same by the simple way, where an engine has one.
    var replays: [StateEngineKind: [BuildTrial]] = [:]
    /// Bytes of the closed store of all events.
    var sizes: [StateEngineKind: Int] = [:]

    /// `directory` is this run's own, on the disk that is measured.
    public init(items: [Item], plan: Plan, directory: String, progress: @escaping (String) -> Void) {
        (self.items, self.plan, self.directory, self.progress) = (items, plan, directory, progress)
        targets = ReadTargets(items)
    }

    private func turn(_ round: Int) -> [StateEngineKind] {
        let first = round % plan.engines.count
        return Array(plan.engines[first...] + plan.engines[..<first])
    }

    private func path(_ engine: StateEngineKind) -> String { directory + "/" + engine.rawValue }

    private func remove(_ path: String) throws {
        if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
    }

    private func fresh(_ path: String) throws {
        try remove(path)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        // What earlier trials left to write back would be charged to this one.
        sync()
    }

    /// How many events a trial of this batch size appends.
    private func count(_ batch: Int) -> Int {
        let commits = batch == 1 ? 4000 : batch < 1024 ? 300 : 40
        return max(batch * 4, Int(Double(commits * batch) * plan.scale) / batch * batch)
    }

    private mutating func record(_ title: String, _ batch: Int, _ engine: StateEngineKind, _ trial: Trial) {
        let subject = AppendSubject(title: title, batch: batch)
        if !appendSubjects.contains(subject) { appendSubjects.append(subject) }
        appends[subject, default: [:]][engine, default: []].append(trial)
        progress("\(title), \(batch) a commit: \(engine.rawValue) \(Int(trial.eventsPerSecond)) events/s")
    }

    /// Durable appends to a new store.
    public mutating func appendToEmpty() throws {
        let path = directory + "/empty"
        for round in 0..<plan.rounds {
            for batch in plan.batches {
                for engine in turn(round) {
                    try fresh(path)
                    let opened = try engine.open(directory: path)
                    let share = items[..<min(items.count, count(batch))]
                    let trial = try Trial.run(share, batch: batch, directory: path, append: opened.append)
                    try opened.close()
                    record("empty store", batch, engine, trial)
                }
            }
        }
        try remove(path)
    }

    /// Makes each engine's store of the first `preload` events.
    public func preload() throws {
        for engine in plan.engines {
            try fresh(path(engine))
            let trial = try extend(engine, items[..<plan.preload])
            progress("\(engine.rawValue): \(plan.preload) events at \(Int(trial.eventsPerSecond)) events/s, not synced")
        }
    }

    private func extend(_ engine: StateEngineKind, _ more: ArraySlice<Item>) throws -> Trial {
        let opened = try engine.open(directory: path(engine), isDurable: false)
        let trial = try Trial.run(more, batch: 4096, directory: path(engine), append: opened.append)
        try opened.close()
        return trial
    }

    /// Durable appends to a copy of the preloaded store.
    public mutating func appendToPreloaded() throws {
        let copy = directory + "/copy"
        for round in 0..<plan.rounds {
            for engine in turn(round) {
                try remove(copy)
                try FileManager.default.copyItem(atPath: path(engine), toPath: copy)
                sync()
                let opened = try engine.open(directory: copy)
                var at = plan.preload
                for (index, batch) in plan.batches.enumerated() {
                    // What is left of the data is shared among the batch sizes.
                    let share = (items.count - at) / (plan.batches.count - index)
                    let end = min(items.count, at + max(batch, min(count(batch), share) / batch * batch))
                    let trial = try Trial.run(items[at..<end], batch: batch, directory: copy, append: opened.append)
                    record("store of \(grouped(Double(plan.preload)))", batch, engine, trial)
                    at = end
                }
                try opened.close()
            }
        }
        try remove(copy)
    }

    /// Appends what is left to the preloaded stores, and takes their sizes.
    public mutating func complete() throws {
        for engine in plan.engines {
            _ = try extend(engine, items[plan.preload...])
            let opened = try engine.open(directory: path(engine))
            try opened.compact()
            try opened.close()
            sync()
            sizes[engine] = DeviceBytes.used(by: path(engine))
            progress("\(engine.rawValue): \(items.count) events in \(sizes[engine] ?? 0) bytes")
        }
    }

    /// Reads of all kinds from the complete, warm stores. Throws if the engines do not read the same.
    public mutating func read() throws {
        for round in 0..<plan.rounds {
            for engine in turn(round) {
                let opened = try engine.open(directory: path(engine))
                for kind in ReadKind.allCases where targets.has(kind) {
                    for threads in plan.threads {
                        let trial = try ReadTrial.run(opened, lists(kind, threads: threads, round))
                        reads[ReadSubject(kind: kind, threads: threads), default: [:]][engine, default: []].append(trial)
                        progress("\(kind.rawValue), \(threads) threads: \(engine.rawValue) \(Int(trial.readsPerSecond)) reads/s")
                    }
                }
                try window(engine, opened, round)
                try opened.close()
            }
        }
        for (subject, trials) in reads {
            guard Set(trials.values.map { $0.map(\.sum) }).count == 1 else {
                throw EngineError("\(subject.kind.rawValue): the engines read different things: \(trials.mapValues { $0.map(\.sum) })")
            }
        }
    }

    /// Of engines that choose what a model is given.
    private mutating func window(_ kind: StateEngineKind, _ engine: any ReadEngine, _ round: Int) throws {
        for pages in [ReadKind.page, .recentPage] where targets.has(pages) {
            guard let reader = try engine.reader() as? any WindowReader else { return }
            let chosen = targets.choose(pages, max(100, Int(2000 * plan.scale)), seed: plan.seed &+ UInt64(round * 100))
            let trial = try WindowTrial.run(
                reader,
                chosen.compactMap { read in
                    if case .page(let id) = read { return id }
                    return nil
                })
            try reader.close()
            windows[pages, default: [:]][kind, default: []].append(trial)
            progress("window, \(pages.rawValue): \(kind.rawValue) \(fixed(trial.ratio, 2)) times the page")
        }
    }

    private func lists(_ kind: ReadKind, threads: Int, _ round: Int) -> [[ReadTargets.Read]] {
        let count = max(100, Int(Double(kind.count) * plan.scale))
        return (0..<threads).map { targets.choose(kind, count, seed: plan.seed &+ UInt64(round * 100 + $0)) }
    }

    /// Builds all state of the complete stores from their events. Throws if it is not the state that was there.
    public mutating func build() throws {
        for round in 0..<plan.rounds {
            for engine in turn(round) {
                let opened = try engine.open(directory: path(engine))
                let before = try sums(opened)
                builds[engine, default: []].append(try build(engine, opened, "build", opened.buildState))
                guard try sums(opened) == before else { throw EngineError("\(engine.rawValue) built another state") }
                if let simple = opened as? any ReplayEngine {
                    replays[engine, default: []].append(try build(engine, opened, "replay", simple.replayState))
                    guard try sums(opened) == before else { throw EngineError("\(engine.rawValue) replayed to another state") }
                }
                try opened.close()
            }
        }
    }

    private func build(_ kind: StateEngineKind, _ engine: any ReadEngine, _ title: String, _ body: () throws -> Void) throws -> BuildTrial {
        try engine.dropState()
        sync()
        let (start, processor) = (Trial.nanoseconds(), Trial.processorSeconds())
        try body()
        let seconds = Double(Trial.nanoseconds() - start) / 1e9
        progress("\(title): \(kind.rawValue) \(Int(Double(items.count) / seconds)) events/s")
        return BuildTrial(seconds: seconds, processorSeconds: Trial.processorSeconds() - processor)
    }

    private func sums(_ engine: any ReadEngine) throws -> [ReadSum] {
        try ReadKind.allCases.filter(targets.has).map { kind in
            try ReadTrial.run(engine, [targets.choose(kind, 1000, seed: plan.seed)]).sum
        }
    }
}
