import Foundation
import Interchange
import Testing

@testable import EventLog
import StoreTesting

/// What became of a line, in the model's words.
struct LineOutcome: Hashable {
    var line: Int
    var outcome: String
    var code: String?
}

/// Imports a file of events line by line into a store that is flushed, closed, and abandoned as by a crash, at random places.
final class ModelImport {
    let scratch: Scratch
    private(set) var store: EventStore
    private var folder: String
    private var options: StoreOptions
    private var generator: SeededGenerator
    /// How often a batch is followed by a close and opening, and by a crash.
    var closeChance = 0.0
    var crashChance = 0.0
    private(set) var outcomes: [LineOutcome] = []
    private(set) var accepted: [(event: Event, origin: Origin, receipt: Receipt)] = []
    private var copies = 0

    init(seed: UInt64, journalBytesMax: Int = 256 << 10, durability: Durability = .full) throws {
        scratch = try Scratch()
        generator = SeededGenerator(seed: seed)
        folder = scratch.folder.path(percentEncoded: false) + "/store"
        options = StoreOptions(durability: durability, journalBytesMax: journalBytesMax)
        store = try EventStore.open(at: folder, options: options)
    }

    deinit { try? store.close() }

    func run(_ path: String) async throws {
        outcomes = []
        accepted = []
        var origins = ImportOrigins(digest: try InputFile.open(path).contentDigest())
        var lines = try LineReader(InputFile.open(path))
        var decoder = EventLineDecoder()
        var batch: [(line: Int, submission: Submission)] = []
        var wanted = Int.random(in: 1...60, using: &generator)
        while try lines.advance() {
            if lines.isBlank { continue }
            let number = lines.number
            if lines.isTooLong {
                outcomes.append(LineOutcome(line: number, outcome: "rejected", code: "too_large"))
                continue
            }
            let bytes = lines.withLine { Array($0) }
            do throws(Refusal) {
                let line = try decoder.decode(bytes)
                batch.append((number, Submission(line.event, origin: line.origin ?? origins.origin(in: line.event.log, at: line.at))))
            } catch {
                if let log = decoder.log { origins.count(log) }
                outcomes.append(LineOutcome(line: number, outcome: "rejected", code: error.code.rawValue))
            }
            if batch.count >= wanted {
                try await append(batch)
                batch = []
                wanted = Int.random(in: 1...60, using: &generator)
                let roll = Double.random(in: 0..<1, using: &generator)
                if roll < closeChance { try reopen() } else if roll < closeChance + crashChance { try crash() }
            }
        }
        try await append(batch)
        outcomes.sort { $0.line < $1.line }
    }

    private func append(_ batch: [(line: Int, submission: Submission)]) async throws {
        let submissions = batch.map(\.submission)
        let answers = Bool.random(using: &generator) ? try await store.append(submissions) : try store.appendBlocking(submissions)
        #expect(answers.count == batch.count)
        for (answer, (line, submission)) in zip(answers, batch) {
            switch answer {
            case .accepted(let receipt): accepted.append((submission.event, submission.origin!, receipt))
            case .duplicate: outcomes.append(LineOutcome(line: line, outcome: "duplicate"))
            case .refused(let refusal): outcomes.append(LineOutcome(line: line, outcome: "rejected", code: refusal.code.rawValue))
            case .withdrawn, .undecided: outcomes.append(LineOutcome(line: line, outcome: "withdrawn"))
            }
        }
    }

    func reopen() throws {
        try store.close()
        store = try EventStore.open(at: folder, options: options)
    }

    /// Goes on with a copy of the directory as it is, as after kill -9.
    func crash() throws {
        // A copy of LMDB's file in the middle of a commit is no state that a crash can leave.
        store.flushing.withLock(waitingWhile: { $0.asked != $0.done }) { _ in }
        copies += 1
        let copy = scratch.folder.path(percentEncoded: false) + "/copy-\(copies)"
        try FileManager.default.copyItem(atPath: folder, toPath: copy)
        try store.close()
        try FileManager.default.removeItem(atPath: folder)
        folder = copy
        store = try EventStore.open(at: folder, options: options)
    }

    /// The whole store as JSONL.
    func export() throws -> [UInt8] {
        if case .relaxed = options.durability { try store.flush() }
        var bytes: [UInt8] = []
        let encoder = EventLineEncoder()
        try store.replay { record in
            encoder.append(record, to: &bytes)
            return true
        }
        return bytes
    }

    /// Checks that the store holds just what was accepted, in order, densely (I2), whichever way it is read.
    func checkContents(_ comment: Comment) throws {
        try store.flush()
        var index = 0
        var seqs: [LogID: Seq] = [:]
        try store.replay { record in
            guard index < accepted.count else {
                index += 1
                return true
            }
            let wanted = accepted[index]
            index += 1
            seqs[record.log, default: 0] += 1
            let isSame =
                record.event == wanted.event && record.origin == wanted.origin && record.position == wanted.receipt.position
                && record.seq == wanted.receipt.seq && record.hlc == wanted.receipt.hlc && record.seq == seqs[record.log]
                && record.position == Position(index)
            #expect(isSame, comment)
            return isSame
        }
        #expect(index == accepted.count, comment)
        var logs = 0
        try store.forEachLog { summary in
            logs += 1
            #expect(summary.events == seqs[summary.log], comment)
            let ascending = try store.events(in: summary.log)
            #expect(ascending.map(\.seq) == Array(1...summary.events), comment)
            #expect(try store.events(in: summary.log, isReversed: true) == ascending.reversed(), comment)
            for event in ascending { #expect(event.event == accepted[Int(event.position) - 1].event, comment) }
            return true
        }
        #expect(logs == seqs.count, comment)
    }

    static func expected(_ url: URL) throws -> [LineOutcome] {
        try Data(contentsOf: url).split(separator: 0x0A).map {
            let object = try #require(JSONSerialization.jsonObject(with: $0) as? [String: Any])
            return LineOutcome(line: try #require(object["line"] as? Int), outcome: try #require(object["outcome"] as? String), code: object["code"] as? String)
        }
    }
}
