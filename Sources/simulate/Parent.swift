import ArgumentParser
import EventLog
import Foundation
import Synchronization

/// Runs seeds in processes of their own, so that a trap ends one seed and not the run.
struct Parent {
    private struct State {
        var next: UInt64
        var failed: [(seed: UInt64, what: String)] = []
        var done = 0
        var isOver = false
    }

    private let options: Simulate
    private static let seedsAProcess: UInt64 = 20
    private static let failuresShown = 20

    init(_ options: Simulate) { self.options = options }

    func run() throws {
        guard let planted = options.planted else {
            let failed = runAll(nil, stopsAtFirst: false)
            throw failed.isEmpty ? ExitCode.success : ExitCode.failure
        }
        let bugs = planted == "all" ? PlantedBug.allCases.map(\.rawValue) : [planted]
        var missed: [String] = []
        for bug in bugs {
            if let caught = runAll(bug, stopsAtFirst: true).first {
                print("\(bug): caught by seed \(caught.seed): \(caught.what)")
            } else {
                print("\(bug): NOT caught by \(options.seeds) seeds")
                missed.append(bug)
            }
        }
        throw missed.isEmpty ? ExitCode.success : ExitCode.failure
    }

    private func runAll(_ bug: String?, stopsAtFirst: Bool) -> [(seed: UInt64, what: String)] {
        let begin = ContinuousClock.now
        let end = options.first + UInt64(options.seeds)
        let state = Mutex(State(next: options.first))
        DispatchQueue.concurrentPerform(iterations: max(options.jobs, 1)) { _ in
            while true {
                let range = state.withLock { state -> Range<UInt64>? in
                    guard state.next < end, !state.isOver else { return nil }
                    defer { state.next = min(state.next + Self.seedsAProcess, end) }
                    return state.next..<min(state.next + Self.seedsAProcess, end)
                }
                guard let range else { return }
                var first = range.lowerBound
                while first < range.upperBound {
                    let (failed, next) = runProcess(first..<range.upperBound, bug)
                    let isOver = state.withLock { state -> Bool in
                        state.done += Int(next - first)
                        state.failed += failed
                        if stopsAtFirst, !failed.isEmpty { state.isOver = true }
                        return state.isOver
                    }
                    if bug == nil {
                        for (seed, what) in failed where state.withLock({ $0.failed.count }) <= Self.failuresShown {
                            print("seed \(seed): \(what)\n  again: simulate --first \(seed) --seeds 1 --operations \(options.operations) --verbose")
                        }
                    }
                    fflush(nil)
                    if isOver { return }
                    first = next
                }
            }
        }
        let (done, failed) = state.withLock { ($0.done, $0.failed.sorted { $0.seed < $1.seed }) }
        let seconds = Double((ContinuousClock.now - begin).components.seconds)
        if bug == nil { print("\(done) seeds of \(options.operations) operations, \(failed.count) failed, in \(Int(seconds)) s") }
        return failed
    }

    /// Runs some seeds; says what failed, and which seed comes next.
    private func runProcess(_ seeds: Range<UInt64>, _ bug: String?) -> (failed: [(seed: UInt64, what: String)], next: UInt64) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0])
        process.arguments = ["--first", "\(seeds.lowerBound)", "--seeds", "\(seeds.count)", "--operations", "\(options.operations)"]
        if let bug { process.arguments! += ["--planted", bug] }
        if options.verbose { process.arguments!.append("--verbose") }
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_DETERMINISTIC_HASHING": "1", "SWIFT_BACKTRACE": "enable=no"]) { $1 }
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        do { try process.run() } catch { return ([(seeds.lowerBound, "cannot be run: \(error)")], seeds.upperBound) }
        let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        var failed: [(seed: UInt64, what: String)] = []
        var last = seeds.lowerBound
        var hasEnded = false
        var trap = ""
        for line in output.split(separator: "\n") {
            let words = line.split(separator: " ", maxSplits: 2)
            if words[0] == "BEGIN", words.count > 1 { last = UInt64(words[1]) ?? last }
            if words[0] == "FAILED", words.count == 3 { failed.append((UInt64(words[1]) ?? last, String(words[2]))) }
            if words[0] == "END" { hasEnded = true }
            if line.contains("Fatal error") { trap = String(line) }
            if options.verbose { print(line) }
        }
        if !hasEnded { failed.append((last, "the process ended with status \(process.terminationStatus) \(trap)")) }
        return (failed, hasEnded ? seeds.upperBound : last + 1)
    }
}
