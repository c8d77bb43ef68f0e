/// How a recorded stream's payloads are told apart.
public enum StreamFraming: Hashable, Sendable {
    /// Server-sent events: `data:` lines, an event ends at a blank line.
    case serverSentEvents
    /// One payload a line.
    case lines
}

/// Finds out a recorded stream's framing: server-sent events if any line starts with `data:`. Feed it all bytes, in any slices.
public struct StreamFramingDetector: Sendable {
    /// What the bytes so far say.
    public private(set) var framing = StreamFraming.lines
    /// Bytes of `data:` that the current line has matched; `nil` if it is another line.
    private var matched: Int? = 0
    /// Whether a byte order mark may still be under way: bytes of it that were seen.
    private var markBytes: Int? = 0

    public init() {}

    public mutating func feed(_ bytes: UnsafeRawBufferPointer) {
        guard framing == .lines else { return }
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let prefix: [UInt8] = Array("data:".utf8)
        for byte in bytes {
            if let seen = markBytes {
                if seen < 3, byte == mark[seen] {
                    markBytes = seen + 1
                    continue
                }
                markBytes = nil
                if seen != 0, seen != 3 { matched = nil }
            }
            if byte == 0x0A || byte == 0x0D {
                matched = 0
            } else if let count = matched {
                matched = byte == prefix[count] ? count + 1 : nil
                if matched == prefix.count { return framing = .serverSentEvents }
            }
        }
    }
}

/// Cuts bytes into payloads. Where the slices are cut changes nothing.
struct StreamPayloadSplitter {
    let framing: StreamFraming
    private var line: [UInt8] = []
    private var data: [UInt8] = []
    private var hasData = false
    /// Lines that have ended.
    private var linesEnded = 0
    /// The line that the pending payload begins on, once it has one of its own.
    private var dataLine = 0
    private var skipsLineFeed = false
    private var isFirstLine = true

    init(framing: StreamFraming) { self.framing = framing }

    /// Bytes held of a payload that has not ended.
    var pendingBytes: Int { line.count + data.count }

    /// The line that the payload begins on which has not ended, counted physically from 1.
    var pendingLine: Int { hasData ? dataLine : linesEnded + 1 }

    /// Takes the next bytes and tells each payload that they complete, and the line that it begins on.
    mutating func feed(_ bytes: UnsafeRawBufferPointer, _ payload: (_ bytes: [UInt8], _ line: Int) -> Void) {
        var start = 0
        if skipsLineFeed, let first = bytes.first {
            skipsLineFeed = false
            if first == 0x0A { start = 1 }
        }
        var at = start
        while at < bytes.count {
            let byte = bytes[at]
            guard byte == 0x0A || byte == 0x0D else {
                at += 1
                continue
            }
            line.append(contentsOf: bytes[start..<at])
            endLine(payload)
            at += 1
            if byte == 0x0D {
                if at == bytes.count { skipsLineFeed = true } else if bytes[at] == 0x0A { at += 1 }
            }
            start = at
        }
        if start < bytes.count { line.append(contentsOf: bytes[start...]) }
    }

    /// Takes what is pending at the end of input, even without its blank line.
    mutating func finish(_ payload: (_ bytes: [UInt8], _ line: Int) -> Void) {
        if !line.isEmpty { endLine(payload) }
        if hasData { endEvent(payload) }
    }

    private mutating func endLine(_ payload: (_ bytes: [UInt8], _ line: Int) -> Void) {
        linesEnded += 1
        defer { line.removeAll(keepingCapacity: true) }
        if isFirstLine {
            isFirstLine = false
            if line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        }
        switch framing {
        case .lines: if !line.allSatisfy({ $0 == 0x20 || 0x09...0x0D ~= $0 }) { payload(line, linesEnded) }
        case .serverSentEvents:
            if line.isEmpty {
                if hasData { endEvent(payload) }
            } else if line.starts(with: Array("data:".utf8)) {
                if hasData { data.append(0x0A) } else { dataLine = linesEnded }
                hasData = true
                data.append(contentsOf: line.dropFirst(line.count > 5 && line[5] == 0x20 ? 6 : 5))
            }
        }
    }

    private mutating func endEvent(_ payload: (_ bytes: [UInt8], _ line: Int) -> Void) {
        payload(data, dataLine)
        data.removeAll(keepingCapacity: true)
        hasData = false
    }
}
