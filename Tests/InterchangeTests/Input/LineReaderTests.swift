import Crypto
import EventLog
import Foundation
import Interchange
import Testing
import StoreTesting

@Suite("Input files") struct LineReaderTests {
    private func lines(_ path: String, max: Int = EventLimits.eventBytesMax) throws -> [(
        number: Int, text: String, isTooLong: Bool, isBlank: Bool
    )] {
        var reader = try LineReader(InputFile.open(path), lineBytesMax: max)
        var result: [(Int, String, Bool, Bool)] = []
        while try reader.advance() {
            result.append((reader.number, reader.withLine { String(decoding: $0, as: UTF8.self) }, reader.isTooLong, reader.isBlank))
        }
        return result
    }

    @Test("lines end in LF, CRLF or CR, and are counted physically") func lineEnds() throws {
        let scratch = try Scratch()
        let found = try lines(scratch.file("a", "one\ntwo\r\nthree\rfour\r\r\n\n \u{3000}\u{85}\nlast".utf8))
        #expect(found.map(\.text) == ["one", "two", "three", "four", "", "", " \u{3000}\u{85}", "last"])
        #expect(found.map(\.number) == Array(1...8))
        #expect(found.map(\.isBlank) == [false, false, false, false, true, true, true, false])
        #expect(try lines(scratch.file("b", "".utf8)).isEmpty)
        #expect(try lines(scratch.file("c", "\r\n".utf8)).map(\.text) == [""])
    }

    @Test("blocks may end anywhere, between CR and LF too") func blockBoundaries() throws {
        let scratch = try Scratch()
        var generator = SeededGenerator(seed: 3)
        var content: [UInt8] = []
        var expected: [String] = []
        while content.count < 3 << 18 {
            let text = String(repeating: "x", count: Int.random(in: 0...3000, using: &generator))
            expected.append(text)
            content += Array(text.utf8) + [[10], [13, 10], [13]].randomElement(using: &generator)!
            if content.last == 13 { content.append(UInt8(ascii: "y")); expected.append("y"); content.append(10) }
        }
        for shift in 0..<3 {
            let path = try scratch.file("a", [UInt8](repeating: UInt8(ascii: "z"), count: shift) + [10] + content)
            #expect(try lines(path).map(\.text) == [String(repeating: "z", count: shift)] + expected)
        }
        // A CR as the last byte of a block, with and without its LF.
        for ends in ["\r\n", "\r", "\r\r\n"] {
            let path = try scratch.file("b", [UInt8](repeating: 120, count: (1 << 18) - 1) + Array(ends.utf8) + [121])
            #expect(try lines(path).map(\.text.utf8.count) == (ends == "\r\r\n" ? [(1 << 18) - 1, 0, 1] : [(1 << 18) - 1, 1]))
        }
    }

    @Test("a line over the limit is told without being held") func longLines() throws {
        let scratch = try Scratch()
        let path = try scratch.file(
            "a",
            Array("first\n".utf8) + [UInt8](repeating: 120, count: 20_000_000) + Array("\nfit12\nlonger\n".utf8)
                + [UInt8](repeating: 32, count: 600_000))
        let found = try lines(path, max: 5)
        #expect(found.map(\.isTooLong) == [false, true, false, true, true])
        #expect(found.map(\.isBlank) == [false, false, false, false, true])
        #expect(found[2].text == "fit12")
        let exact = try lines(
            scratch.file("b", [UInt8](repeating: 120, count: 4 << 20) + [13, 10] + [UInt8](repeating: 120, count: 4 << 20 + 1)))
        #expect(exact.map(\.isTooLong) == [false, true])
    }

    @Test("zstd files are read as what they hold; damage and truncation are typed errors") func compressed() throws {
        let scratch = try Scratch()
        let name = "events/seed-1.jsonl.zst"
        let whole = Array(try Fixtures.data(name))
        let plain = try lines(Fixtures.path(name))
        #expect(plain.count == 3000)
        let twice = try lines(scratch.file("twice.zst", whole + whole))
        #expect(twice.count == 6000)
        let content = plain.map { $0.text + "\n" }.joined()
        let digest = try InputFile.open(Fixtures.path(name)).contentDigest()
        #expect(digest == Array(content.utf8).withUnsafeBytes { ContentDigest(of: $0) })
        #expect(try InputFile.open(scratch.file("plain.jsonl", content.utf8)).contentDigest() == digest)
        for count in [0, 3, 4, 5, 9, 100, whole.count / 2, whole.count - 4, whole.count - 1] {
            let path = try scratch.file("cut.zst", whole.prefix(count))
            #expect { _ = try lines(path) } throws: { ($0 as? InputError)?.code == .truncated }
            #expect { _ = try InputFile.open(path).contentDigest() } throws: { ($0 as? InputError)?.code == .truncated }
        }
        var damaged = whole
        damaged[whole.count / 2] ^= 0x40
        #expect { _ = try lines(scratch.file("bad.zst", damaged)) } throws: { ($0 as? InputError)?.code == .damaged }
        #expect { _ = try lines(scratch.file("text.zst", "no zstd at all".utf8)) } throws: { ($0 as? InputError)?.code == .damaged }
        #expect { _ = try lines(scratch.file("tail.zst", whole + [1, 2, 3, 4, 5])) } throws: { ($0 as? InputError)?.code == .damaged }
    }

    @Test("a zstd file that needs a larger window than is given says so, and is not called damaged", arguments: [27, 28, 31])
    func window(_ log: UInt8) throws {
        let scratch = try Scratch()
        // A frame's header (RFC 8878): magic, no flags, the window; then a last block of one byte.
        let bytes: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0, (log - 10) << 3, 0x09, 0, 0, 0x41]
        let path = try scratch.file("long.zst", bytes)
        if log == 27 {
            #expect(try lines(path).map(\.text) == ["A"])
        } else {
            let failure = #expect(throws: InputError.self) { try lines(path) }
            #expect(failure?.code == .windowTooLarge && failure?.message.contains("--long=31") ?? false)
        }
    }

    @Test("what is no file is a typed error; a pipe is copied and read twice") func otherFiles() throws {
        let scratch = try Scratch()
        #expect { _ = try InputFile.open("/nowhere/at/all") } throws: { ($0 as? InputError)?.code == .noSuchFile }
        #expect { _ = try InputFile.open("/") } throws: { ($0 as? InputError)?.code == .noSuchFile }
        let pipe = scratch.folder.appending(path: "pipe").path(percentEncoded: false)
        #expect(mkfifo(pipe, 0o600) == 0)
        let writer = Thread { try? Data("a\nb".utf8).write(to: URL(filePath: pipe), options: []) }
        writer.start()
        let file = try InputFile.open(pipe)
        #expect(file.size == 3)
        #expect(try file.contentDigest() == file.contentDigest())
        var reader = try LineReader(file)
        #expect(try reader.advance() && reader.advance())
        #expect(reader.bytesRead == 3 && reader.bytesTotal == 3)
    }

    @Test("I3: origins of an import depend on content, log and line only") func origins() throws {
        let digest = Array("abc".utf8).withUnsafeBytes { ContentDigest(of: $0) }
        var origins = ImportOrigins(digest: digest)
        #expect(origins.replica.description == "ba7816bf-8f01-8fea-8141-40de5dae2223")
        let log = LogID.conversation(.init(high: 1, low: 2))
        #expect(origins.origin(in: log, at: 5) == Origin(replica: origins.replica, counter: 1, hlc: HLC(milliseconds: 5)))
        #expect(origins.origin(in: .user(UserID("ann")!), at: 5).counter == 1)
        #expect(origins.count(log) == 2)
        #expect(
            origins.origin(in: log, at: .max) == Origin(replica: origins.replica, counter: 3, hlc: HLC(milliseconds: Timestamp.maximum)))
    }
}
