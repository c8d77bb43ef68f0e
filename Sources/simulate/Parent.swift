import ArgumentParser
import EventLog
import Foundation
import Synchronization

/// Runs seeds in processes of their own, so that a trap ends one seed and not the run.
struct Parent {
    private let options: Simulate
    private let children = Children()
    /// A process takes some milliseconds to start, and its first world some more.
    private static let seedsAProcess: UInt64 = 50
    /// Where the first that catches a bug ends the run, those before it should have had their turn.
    private static let seedsAProcessWithBug: UInt64 = 4
    /// Where every seed fails, it need not be told a million times.
    private static let failuresShown = 1000

    init(_ options: Simulate) { self.options = options }

    func run() throws {
        children.stopWhenTold()
        guard let planted = options.planted else {
            let failures = runAll(nil)
            throw failures.isEmpty ? children.wasTold ? ExitCode(130) : ExitCode.success : ExitCode.failure
        }
        let bugs = planted == "all" ? PlantedBug.allCases.map(\.rawValue) : [planted]
        var missed: [String] = []
        for bug in bugs {
            let caught = runAll(bug).min { $0.seed < $1.seed }
            if children.wasTold { throw ExitCode(130) }
            if let caught {
                print("\(bug): caught by seed \(caught.seed): \(caught.what)")
            } else {
                print("\(bug): NOT caught by \(options.seeds) seeds")
                missed.append(bug)
            }
            fflush(nil)
        }
        throw missed.isEmpty ? ExitCode.success : ExitCode.failure
    }

    /// With a bug it ends at the first seed that catches it.
    private func runAll(_ bug: String?) -> [SeedProcess.Failure] {
        children.beginAnew()
        let progress = Mutex(Progress(options.first..<options.first + UInt64(options.seeds)))
        DispatchQueue.concurrentPerform(iterations: max(options.jobs, 1)) { _ in
            while let seeds = progress.withLock({ $0.take(bug == nil ? Self.seedsAProcess : Self.seedsAProcessWithBug) }) {
                let process = SeedProcess(seeds, bug, options)
                guard children.start(process) else { return progress.withLock { $0.giveBack(seeds) } }
                let rest = process.read { event in
                    progress.withLock { note(event, bug, &$0) }
                    if bug != nil, case .failed = event { children.stop() }
                }
                children.forget(process)
                // What a trap, or the end of the run, left undone.
                progress.withLock { $0.giveBack(rest) }
            }
        }
        let done = progress.withLock { $0 }
        if bug == nil {
            print(done.summary(operations: options.operations))
            if let next = done.firstUndone {
                print("stopped: all before seed \(next) were run; go on with simulate --first \(next) --seeds \(done.end - next)")
            }
        }
        return done.failures
    }

    /// Under the lock of the progress, so that lines stay whole.
    private func note(_ event: SeedProcess.Event, _ bug: String?, _ progress: inout Progress) {
        switch event {
        case .done(let seed): progress.finish(seed)
        case .failed(let failure):
            progress.failures.append(failure)
            if bug == nil, progress.failures.count <= Self.failuresShown {
                print(
                    "seed \(failure.seed): \(failure.what)\n  again: simulate --first \(failure.seed) --seeds 1 --operations \(options.operations) --verbose")
            }
        case .text(let text): print(text)
        }
        if bug == nil, let line = progress.lineIfDue(operations: options.operations) { print(line) }
        fflush(nil)
    }
}
