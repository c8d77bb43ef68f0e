import ConversationStore
import Foundation
import Testing

@testable import TalkWriter
import StoreTesting

@Suite("Every screen beside the model") struct ScreensTests {
    /// The fixtures, and those of Tests/differential.sh: files `NAME.jsonl` with `NAME.screens.jsonl` beside them.
    static var files: [String] {
        let end = ".screens.jsonl"
        if let folder = ProcessInfo.processInfo.environment["CONVSTORE_MODEL_FILES"] {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            return names.filter { $0.hasSuffix(end) }.map { folder + "/" + $0.replacing(end, with: ".jsonl") }.sorted()
        }
        return [11, 12, 13].map { Fixtures.folder + "/screens/seed-\($0).jsonl.zst" }
    }

    static func screens(_ file: String) throws -> Screens { try Screens(file.replacing(".jsonl", with: ".screens.jsonl")) }

    @Test("Live, after a flush, reopened, rebuilt, and from another opening", arguments: files, [Int?.none, 64 << 10])
    func screens(_ file: String, _ journal: Int?) throws {
        let screens = try Self.screens(file)
        let feed = try Feed(file)
        let scratch = try Scratch()
        var random = SeededGenerator(seed: UInt64(feed.submissions.count))
        func open(_ access: StoreOptions.Access = .readWrite) throws -> ConversationStore { try scratch.open(access, journal: journal ?? 32 << 20) }
        var store = try open()
        var start = 0
        while start < feed.submissions.count {
            let end = min(start + random.below(80) + 1, feed.submissions.count)
            _ = try store.log.appendBlocking(Array(feed.submissions[start..<end]))
            start = end
            // With a tiny journal, closed and opened on the way; lobbies are looked at, so that their order is kept from then on.
            if journal != nil, random.chance(0.05) {
                try store.close()
                store = try open()
            }
            if random.chance(0.1) { _ = try store.lobby(of: random.element(screens.lobbies).0, limit: 5) }
            if random.chance(0.05) { try store.rebuild() }
        }
        try screens.check(store, "live")
        let digest = try store.digest()
        try store.log.flush()
        try screens.check(store, "flushed")
        #expect(try store.digest() == digest)
        try store.close()
        store = try open()
        try screens.check(store, "reopened")
        try store.rebuild()
        try screens.check(store, "rebuilt")
        #expect(try store.digest() == digest)
        #expect(try store.isFold())
        try store.close()
        let reader = try open(.readOnly)
        try screens.check(reader, "read only")
        #expect(try reader.digest() == digest)
        try reader.close()
    }

    @Test("After kill -9 in the middle of an import that then goes on", .tags(.recovery), arguments: files.prefix(4), [64 << 10, 32 << 20])
    func killed(_ file: String, _ journal: Int) throws {
        let screens = try Self.screens(file)
        let scratch = try Scratch()
        var random = SeededGenerator(seed: 7)
        for _ in 0..<3 {
            let child = try ChildProcess("TalkWriter", [scratch.store, "import", String(journal), file])
            #expect(child.isReady())
            usleep(UInt32(random.below(80_000)))
            child.kill()
            let reader = try scratch.open(.readOnly, journal: journal)
            #expect(try reader.isFold())
            try reader.close()
        }
        let child = try ChildProcess("TalkWriter", [scratch.store, "import", String(journal), file])
        // What it shows while the writer goes on is the fold of what was there when it was opened.
        for _ in 0..<3 {
            guard child.isReady(), let reader = try? scratch.open(.readOnly, journal: journal) else { break }
            #expect(try reader.isFold())
            try reader.close()
        }
        #expect(child.status == 0)
        let store = try scratch.open(journal: journal)
        try screens.check(store, "imported")
        try store.close()
    }
}
