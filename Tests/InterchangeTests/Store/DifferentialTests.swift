import Foundation
import Interchange
import Testing

@testable import EventLog

@Suite("A store beside the model") struct DifferentialTests {
    /// The fixtures' seeds, and those of Tests/differential.sh: files `NAME.jsonl` with `NAME.expected.jsonl` beside them.
    static var files: [String] {
        if let folder = ProcessInfo.processInfo.environment["CONVSTORE_MODEL_FILES"] {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            return names.filter { $0.hasSuffix(".expected.jsonl") }.map { folder + "/" + $0.replacing(".expected.jsonl", with: ".jsonl") }.sorted()
        }
        return (1...3).map { Fixtures.path("events/seed-\($0).jsonl.zst") }
    }

    static func expected(_ file: String) throws -> [LineOutcome] {
        try ModelImport.expected(URL(filePath: file.replacing(".jsonl.zst", with: ".jsonl").replacing(".jsonl", with: ".expected.jsonl")))
    }

    @Test("each line gets the model's outcome, through flushes, closings and crashes; a second import changes nothing (I3)", arguments: files)
    func outcomes(_ file: String) async throws {
        let expected = try Self.expected(file)
        for round in 0..<3 {
            let seed = UInt64(round) &+ UInt64(truncatingIfNeeded: file.utf8.reduce(7) { $0 &* 31 &+ Int($1) })
            let comment = Comment(rawValue: "\(file), random seed \(seed), round \(round)")
            let run = try ModelImport(
                seed: seed, journalBytesMax: [256 << 10, 1 << 20, 64 << 10][round], durability: round == 0 ? .full : .relaxed(interval: .milliseconds(20)))
            run.closeChance = [0.05, 0, 0.02][round]
            run.crashChance = [0.05, 0.03, 0.02][round]
            try await run.run(file)
            Self.compare(run.outcomes, expected, comment)
            try run.checkContents(comment)

            let accepted = run.accepted.count
            let first = try run.export()
            if round == 1 { try run.reopen() }
            if round == 2 { try run.crash() }
            try await run.run(file)
            #expect(run.accepted.isEmpty, comment)
            #expect(run.outcomes.filter { $0.outcome == "duplicate" }.count == accepted + expected.filter { $0.outcome == "duplicate" }.count, comment)
            Self.compare(run.outcomes.filter { $0.outcome == "rejected" }, expected.filter { $0.outcome == "rejected" }, comment)
            #expect(try run.export() == first, comment)
        }
    }

    private static func compare(_ got: [LineOutcome], _ expected: [LineOutcome], _ comment: Comment) {
        guard got != expected else { return }
        let at = zip(got, expected).first { $0 != $1 }
        Issue.record("\(comment): \(got.count) outcomes, the model has \(expected.count); first difference \(String(describing: at))")
    }
}
