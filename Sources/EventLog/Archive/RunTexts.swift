/// A run's texts, decompressed frame by frame when asked for.
///
/// For one thread at a time.
final class RunTexts {
    private struct Frame {
        var section: Range<Int>
        /// Where its texts lie among all of the run.
        var texts: Range<Int>
        var checksum: UInt64
    }

    private let position: Position
    private let value: [UInt8]
    private let frames: [Frame]
    private var isLoaded: [Bool]
    /// Whether all frames are.
    private var isWhole = false
    /// Where the texts lie that were decompressed last: the next that is asked for is among them, mostly.
    private var lastTexts = 0..<0
    private var base: UnsafeMutableRawPointer?
    private let decompressor: ZstdDecompressor

    /// `value` is the run's whole value.
    init(_ value: [UInt8], frames: [(range: Range<Int>, raw: Int, checksum: UInt64)], at position: Position, decompressor: ZstdDecompressor) {
        self.position = position
        self.value = value
        self.decompressor = decompressor
        var start = 0
        self.frames = frames.map { frame in
            defer { start += frame.raw }
            return Frame(section: frame.range, texts: start..<start + frame.raw, checksum: frame.checksum)
        }
        isLoaded = Array(repeating: false, count: frames.count)
    }

    deinit { base?.deallocate() }

    /// A text's bytes, valid as long as the run is. It lies within all texts, as the columns were checked.
    func bytes(at offset: Int, count: Int) throws -> UnsafeRawBufferPointer {
        guard count > 0 else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        if offset < lastTexts.lowerBound || offset + count > lastTexts.upperBound { try load(offset..<offset + count) }
        return UnsafeRawBufferPointer(start: base! + offset, count: count)
    }

    func loadAll() throws {
        for (index, frame) in frames.enumerated() where !frame.texts.isEmpty { try load(frame, index) }
        isWhole = true
    }

    /// The bytes of texts that follow each other, in as many frames as they may be, of which all are loaded; ``bytes(at:count:)`` has told of each that it
    /// is in one.
    func loadedBytes(_ range: Range<Int>) throws -> UnsafeRawBufferPointer {
        guard !range.isEmpty else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        guard isWhole, range.upperBound <= frames.last?.texts.upperBound ?? 0 else {
            throw RunError(position: position, underlying: CodecError(.badValue))
        }
        return UnsafeRawBufferPointer(start: base! + range.lowerBound, count: range.count)
    }

    /// Decompresses the frame in which a text lies, if it is not yet.
    private func load(_ text: Range<Int>) throws {
        var low = 0
        var high = frames.count
        while low < high {
            let middle = (low + high) / 2
            if frames[middle].texts.upperBound <= text.lowerBound { low = middle + 1 } else { high = middle }
        }
        let frame = frames[low]
        guard text.upperBound <= frame.texts.upperBound else { throw RunError(position: position, underlying: CodecError(.badValue)) }
        try load(frame, low)
        lastTexts = frame.texts
    }

    private func load(_ frame: Frame, _ index: Int) throws {
        if isLoaded[index] { return }
        if base == nil { base = .allocate(byteCount: frames.last!.texts.upperBound, alignment: 16) }
        do {
            try value.withUnsafeBytes { bytes in
                let section = UnsafeRawBufferPointer(rebasing: bytes[frame.section])
                guard XXH64.hash(section, seed: position) == frame.checksum else { throw ChecksumMismatch(part: "texts") }
                try decompressor.decompress(
                    section, into: UnsafeMutableRawBufferPointer(start: base! + frame.texts.lowerBound, count: frame.texts.count))
            }
        } catch {
            throw RunError(position: position, underlying: error)
        }
        isLoaded[index] = true
    }
}
