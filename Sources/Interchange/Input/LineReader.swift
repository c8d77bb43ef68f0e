public import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Reads an input line by line in bounded memory. Lines end in LF, CRLF or a lone CR, as Python's universal newlines have it.
///
///     var lines = try LineReader(InputFile.open(path))
///     while try lines.advance() { lines.withLine { bytes in … } }
public struct LineReader: ~Copyable {
    /// The number of the current line, counted physically from 1; 0 before the first.
    public private(set) var number = 0
    /// Whether the current line is longer than the limit: then only its beginning is lent.
    public private(set) var isTooLong = false
    /// Whether the current line holds white space only, as Python's `str.strip` knows it: such a line is skipped.
    public private(set) var isBlank = false

    private let file: InputFile
    private var blocks: InputBlocks
    private let lineBytesMax: Int
    private var buffer: UnsafeMutableRawBufferPointer
    /// What is in the buffer and not yet part of a line.
    private var unread = 0..<0
    private var line = 0..<0
    private var isAtEnd = false
    /// Whether the last line ended in a CR at the end of what was there: an LF that follows belongs to it.
    private var skipsLineFeed = false

    /// Reads `file` from its beginning. A line of more than `lineBytesMax` bytes (its end not counted) is told as too long.
    ///
    /// Throws `unreadable` if there is no memory to decompress.
    public init(_ file: consuming InputFile, lineBytesMax: Int = EventLimits.eventBytesMax) throws(InputError) {
        blocks = try InputBlocks(isCompressed: file.isCompressed, name: file.name)
        self.file = file
        self.lineBytesMax = lineBytesMax
        buffer = .allocate(byteCount: 1 << 18, alignment: 16)
    }

    deinit { buffer.deallocate() }

    /// What the caller called the input.
    public var name: String { file.name }
    /// Bytes of the file read so far (compressed ones if it is compressed), of ``bytesTotal``: for a progress bar.
    public var bytesRead: Int { blocks.offset }
    /// Bytes of the file.
    public var bytesTotal: Int { file.size }

    /// Goes to the next line; `false` at the end. Throws `unreadable`, `damaged` or `truncated`.
    public mutating func advance() throws(InputError) -> Bool {
        isTooLong = false
        isBlank = true
        var searched = 0
        while true {
            if skipsLineFeed, !unread.isEmpty {
                skipsLineFeed = false
                if buffer[unread.lowerBound] == 0x0A { unread = unread.lowerBound + 1..<unread.upperBound }
            }
            if let end = lineEnd(from: unread.lowerBound + searched) {
                take(to: end)
                let isReturn = buffer[end] == 0x0D
                unread = end + 1..<unread.upperBound
                skipsLineFeed = isReturn
                return true
            }
            searched = unread.count
            if searched > lineBytesMax {
                // Too long: what was read of it is dropped, but for a beginning.
                isTooLong = true
                isBlank = isBlank && isSpace(unread)
                unread = unread.lowerBound..<unread.lowerBound
                searched = 0
            }
            if isAtEnd {
                guard !unread.isEmpty || isTooLong else { return false }
                take(to: unread.upperBound)
                unread = unread.upperBound..<unread.upperBound
                return true
            }
            try fill()
        }
    }

    /// Lends the current line's bytes, without its end.
    public func withLine<Result, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> Result) throws(E) -> Result {
        try body(UnsafeRawBufferPointer(rebasing: buffer[line]))
    }

    private mutating func take(to end: Int) {
        number += 1
        line = unread.lowerBound..<end
        if line.count > lineBytesMax { isTooLong = true }
        isBlank = isBlank && isSpace(line)
        if isTooLong { line = line.lowerBound..<line.lowerBound }
    }

    private func lineEnd(from start: Int) -> Int? {
        guard start < unread.upperBound else { return nil }
        let base = buffer.baseAddress! + start
        let count = unread.upperBound - start
        let feed = memchr(base, 0x0A, count).map { UnsafeRawPointer($0) - UnsafeRawPointer(base) }
        let carriage = memchr(base, 0x0D, feed ?? count).map { UnsafeRawPointer($0) - UnsafeRawPointer(base) }
        return (carriage ?? feed).map { start + $0 }
    }

    /// Reads a block behind what is unread; makes room first, by moving it to the front or by growing up to the limit.
    private mutating func fill() throws(InputError) {
        if unread.lowerBound > 0 {
            if !unread.isEmpty { buffer.baseAddress!.copyMemory(from: buffer.baseAddress! + unread.lowerBound, byteCount: unread.count) }
            unread = 0..<unread.count
        }
        if unread.count > buffer.count / 2 {
            let larger = UnsafeMutableRawBufferPointer.allocate(byteCount: buffer.count * 2, alignment: 16)
            larger.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[unread]))
            buffer.deallocate()
            buffer = larger
        }
        let count = try blocks.read(file.descriptor, into: UnsafeMutableRawBufferPointer(rebasing: buffer[unread.upperBound...]))
        unread = 0..<unread.count + count
        isAtEnd = count == 0
    }

    private func isSpace(_ range: Range<Int>) -> Bool {
        var at = range.lowerBound
        while at < range.upperBound {
            switch buffer[at] {
            case 0x09...0x0D, 0x1C...0x20: at += 1
            case 0xC2 where at + 1 < range.upperBound && (buffer[at + 1] == 0x85 || buffer[at + 1] == 0xA0): at += 2
            case 0xE1...0xE3 where at + 2 < range.upperBound && isWideSpace(at): at += 3
            default: return false
            }
        }
        return true
    }

    /// U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000.
    private func isWideSpace(_ at: Int) -> Bool {
        switch (buffer[at], buffer[at + 1], buffer[at + 2]) {
        case (0xE1, 0x9A, 0x80), (0xE2, 0x80, 0x80...0x8A), (0xE2, 0x80, 0xA8...0xA9), (0xE2, 0x80, 0xAF), (0xE2, 0x81, 0x9F),
            (0xE3, 0x80, 0x80):
            true
        default: false
        }
    }
}
