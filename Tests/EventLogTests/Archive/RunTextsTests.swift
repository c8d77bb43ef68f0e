import Testing

@testable import EventLog

@Suite("A run's texts") struct RunTextsTests {
    /// Texts of two frames, "a" and "b", as somebody may have cut them who cut through a text.
    private func texts() throws -> RunTexts {
        let position = SegmentCodec.position
        let compressor = ZstdCompressor(level: 3)
        var value = ByteBuffer()
        var frames: [(range: Range<Int>, raw: Int, checksum: UInt64)] = []
        for text in ["a", "b"] {
            let start = value.count
            try Array(text.utf8).withUnsafeBytes { _ = try compressor.compress($0, into: &value) }
            let range = start..<value.count
            frames.append((range, 1, XXH64.hash(UnsafeRawBufferPointer(rebasing: value.bytes[range]), seed: position)))
        }
        return RunTexts(value.array(), frames: frames, at: position, decompressor: ZstdDecompressor())
    }

    @Test("I7: a text that lies in two frames is refused, be they loaded or not: who reads one frame could not read it", arguments: [false, true])
    func acrossFrames(_ isLoaded: Bool) throws {
        let texts = try texts()
        if isLoaded { try texts.loadAll() }
        #expect(throws: RunError.self) { try texts.bytes(at: 0, count: 2) }
        #expect(try Array(texts.bytes(at: 1, count: 1)) == Array("b".utf8))
        #expect(throws: RunError.self) { try texts.bytes(at: 0, count: 2) }
    }

    @Test("Texts that follow each other are lent as one when all are loaded") func following() throws {
        let texts = try texts()
        #expect(throws: RunError.self) { try texts.loadedBytes(0..<2) }
        try texts.loadAll()
        #expect(try Array(texts.loadedBytes(0..<2)) == Array("ab".utf8))
        #expect(throws: RunError.self) { try texts.loadedBytes(1..<3) }
    }
}
