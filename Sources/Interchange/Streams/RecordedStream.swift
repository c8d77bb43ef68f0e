/// Reads an AI's answer off the wire, one of ``StreamWires``, as server-sent events or one payload a line. Bytes go in, in any slices; deltas of text come out as soon as their payload is whole.
public struct RecordedStream: Sendable {
    /// One payload's text.
    public struct Delta: Hashable, Sendable {
        /// Never empty. Half a surrogate pair and bytes that are not UTF-8 have turned into U+FFFD.
        public var text: String
        /// When the provider says that it was made (the last time that the stream told): milliseconds since 1970.
        public var at: UInt64?
        /// The line that the payload begins on, counted physically from 1.
        public var line: Int
    }

    /// How the answer ended.
    public enum Ending: Hashable, Sendable {
        /// An end mark was seen; its value (`stop`, `response.completed`, `message_stop`, `[DONE]` …).
        case completed(finishReason: String)
        /// The input ended without one: `error` after an error payload, else `end_of_stream`.
        case interrupted(reason: String)
    }

    /// Characters of a provider's complaint that are told.
    private static let complaintMax = 500

    /// Bytes that one payload may have.
    public static let payloadBytesMax = 16 << 20

    /// Payloads seen, end marks and skipped ones included.
    public private(set) var payloads = 0
    /// Payloads that were not JSON objects.
    public private(set) var skippedPayloads = 0
    /// The last time that the stream told: milliseconds since 1970.
    public private(set) var at: UInt64?
    /// The first time that the stream told.
    public private(set) var firstAt: UInt64?
    /// The lines that the first payload of a known wire, and the last payload of any kind, begin on; 0 before there was one.
    public private(set) var (firstLine, lastLine) = (0, 0)

    private let wires: StreamWires
    private var splitter: StreamPayloadSplitter
    private var isKnown = false
    private var sawError = false
    private var sawWhole = false
    /// What the first error payload said.
    private var complaint: String?
    private var sawDone = false
    private var endMark: String?

    public init(framing: StreamFraming, wires: StreamWires) {
        self.wires = wires
        splitter = StreamPayloadSplitter(framing: framing)
    }

    /// Takes the next bytes and tells each delta that they complete. Throws `payloadTooLarge`; the stream is of no use after that.
    public mutating func feed(_ bytes: UnsafeRawBufferPointer, _ delta: (Delta) -> Void) throws(InputError) {
        var splitter = self.splitter
        self.splitter = StreamPayloadSplitter(framing: splitter.framing)  // So that the closure may change the rest of self.
        splitter.feed(bytes) { take($0, line: $1, delta) }
        self.splitter = splitter
        guard splitter.pendingBytes <= Self.payloadBytesMax else {
            throw InputError(
                .payloadTooLarge, "a payload of the stream is larger than \(Self.payloadBytesMax) bytes", line: splitter.pendingLine)
        }
    }

    /// Takes the next bytes from an array; see ``feed(_:_:)-(UnsafeRawBufferPointer,_)``.
    public mutating func feed(_ bytes: [UInt8], _ delta: (Delta) -> Void) throws(InputError) {
        var failure: InputError?
        bytes.withUnsafeBytes { bytes in
            do throws(InputError) { try feed(bytes, delta) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// Ends the input: tells the delta of a payload that was still pending, and answers how the stream ended.
    ///
    /// Throws `noKnownWire` if no payload was of a wire known here.
    public mutating func finish(_ delta: (Delta) -> Void) throws(InputError) -> Ending {
        var splitter = self.splitter
        splitter.finish { take($0, line: $1, delta) }
        self.splitter = StreamPayloadSplitter(framing: splitter.framing)
        guard isKnown else {
            if let complaint { throw InputError(.noKnownWire, "nothing but an error came: \(complaint.prefix(Self.complaintMax))") }
            if sawWhole { throw InputError(.noKnownWire, "this is a whole answer, not a stream: ask the provider for one (`\"stream\": true`)") }
            throw InputError(.noKnownWire, "no payload is of a known wire (\(wires.names))")
        }
        if let endMark { return .completed(finishReason: endMark) }
        if sawDone { return .completed(finishReason: "[DONE]") }
        return .interrupted(reason: sawError ? "error" : "end_of_stream")
    }

    private mutating func take(_ bytes: [UInt8], line: Int, _ delta: (Delta) -> Void) {
        payloads += 1
        lastLine = line
        if Self.isDone(bytes) { return sawDone = true }
        // Bytes that are not UTF-8 are mended only if they kept the payload from being read.
        guard let payload = bytes.withUnsafeBufferPointer({ StreamPayload($0, wires) }) ?? mended(bytes) else { return skippedPayloads += 1 }
        if payload.isKnown, !isKnown { (isKnown, firstLine) = (true, line) }
        sawError = sawError || payload.isError
        sawWhole = sawWhole || payload.isWhole
        complaint = complaint ?? payload.complaint
        if endMark == nil { endMark = payload.end }
        if let time = payload.at {
            at = time
            if firstAt == nil { firstAt = time }
        }
        if !payload.text.isEmpty { delta(Delta(text: payload.text, at: at, line: line)) }
    }

    private func mended(_ bytes: [UInt8]) -> StreamPayload? {
        let text = Array(String(decoding: bytes, as: UTF8.self).utf8)
        return text == bytes ? nil : text.withUnsafeBufferPointer { StreamPayload($0, wires) }
    }

    private static func isDone(_ bytes: [UInt8]) -> Bool {
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || 0x09...0x0D ~= byte }
        guard let first = bytes.firstIndex(where: { !isSpace($0) }), let last = bytes.lastIndex(where: { !isSpace($0) }) else {
            return false
        }
        return last - first == 5 && bytes[first...last].elementsEqual("[DONE]".utf8)
    }
}
