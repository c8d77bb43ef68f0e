import Foundation
import Synchronization

/// A process that runs some seeds, one after the other.
///
/// `@unchecked Sendable`: one thread starts and reads it; others only end it.
final class SeedProcess: @unchecked Sendable {
    struct Failure {
        var seed: UInt64
        var what: String
    }

    enum Event {
        case done(UInt64)
        case failed(Failure)
        /// What a seed's trace says, when it is done.
        case text(String)
    }

    private let seeds: Range<UInt64>
    private let isVerbose: Bool
    private let process = Process()
    private let pipe = Pipe()

    init(_ seeds: Range<UInt64>, _ bug: String?, _ options: Simulate) {
        self.seeds = seeds
        isVerbose = options.verbose
        process.executableURL = URL(fileURLWithPath: (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0])
        var arguments = ["--first", "\(seeds.lowerBound)", "--seeds", "\(seeds.count)", "--operations", "\(options.operations)"]
        if let bug { arguments += ["--planted", bug] }
        if options.verbose { arguments.append("--verbose") }
        if options.keep { arguments.append("--keep") }
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(Self.environment) { $1 }
        process.standardOutput = pipe
        process.standardError = pipe
    }

    private static let environment = [
        "SWIFT_DETERMINISTIC_HASHING": "1", "SWIFT_BACKTRACE": "enable=no",
        // A world opens stores by the hundred. LMDB has two megabytes cleared for each, and uses next to nothing of them: got from the system anew they are clear,
        // and no page of them is touched. What is smaller stays with the process.
        "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=2097152:glibc.malloc.trim_threshold=1900000:glibc.malloc.top_pad=1000000",
    ]

    func start() throws { try process.run() }

    private let isStopped = Atomic(false)

    /// Lets it end the seed at hand, and no more.
    func stop() {
        isStopped.store(true, ordering: .relaxed)
        process.terminate()
    }

    /// Tells what happens, until it ends; returns the seeds that it left.
    func read(_ tell: (Event) -> Void) -> Range<UInt64> {
        var next = seeds.lowerBound
        var hasEnded = false
        var trap = ""
        var text: [Substring] = []
        func take(_ line: Substring) {
            let words = line.split(separator: " ", maxSplits: 2)
            if isVerbose { text.append(line) }
            switch words.first {
            case "FAILED" where words.count == 3: tell(.failed(Failure(seed: next, what: String(words[2]))))
            case "DONE":
                flush()
                tell(.done(next))
                next += 1
            case "END": hasEnded = true
            case "FILES" where !isVerbose: tell(.text(String(line)))
            default: if line.contains("Fatal error") { trap = String(line) }
            }
        }
        func flush() {
            if !text.isEmpty { tell(.text(text.joined(separator: "\n"))) }
            text = []
        }
        var rest: [UInt8] = []
        while case let bytes = pipe.fileHandleForReading.availableData, !bytes.isEmpty {
            rest += bytes
            guard let end = rest.lastIndex(of: UInt8(ascii: "\n")) else { continue }
            for line in String(decoding: rest[..<end], as: UTF8.self).split(separator: "\n") { take(line) }
            rest.removeFirst(end + 1)
        }
        process.waitUntilExit()
        flush()
        // One that was told so early that it did not know yet what that means has run none.
        let isUnbegun = isStopped.load(ordering: .relaxed) && process.terminationReason == .uncaughtSignal && process.terminationStatus == SIGTERM
        if !hasEnded, !isUnbegun {
            tell(.failed(Failure(seed: next, what: "the process ended with status \(process.terminationStatus) \(trap)")))
            tell(.done(next))
            next += 1
        }
        return next..<max(next, seeds.upperBound)
    }
}
