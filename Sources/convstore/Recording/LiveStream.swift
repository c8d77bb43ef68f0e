import EventLog
import Interchange

/// A provider's stream as it comes. Whether it is server-sent events or a payload a line is found out on the way, with the same result as
/// `import --format stream` has, which sees all of it first.
struct LiveStream {
    private var detector = StreamFramingDetector()
    private var stream = RecordedStream(framing: .lines, wires: .live)
    /// What came while a first `data:` line would still change what it says.
    private var held: [UInt8] = []
    private var isSettled = false

    /// Takes the next bytes and tells each delta that they complete.
    mutating func feed(_ bytes: [UInt8], _ delta: (RecordedStream.Delta) -> Void) throws(InputError) {
        if isSettled { return try stream.feed(bytes, delta) }
        bytes.withUnsafeBytes { detector.feed($0) }
        held += bytes
        if detector.framing == .serverSentEvents {
            isSettled = true
            stream = RecordedStream(framing: .serverSentEvents, wires: .live)
            try stream.feed(held, delta)
            held = []
            return
        }
        var hasText = false
        try stream.feed(bytes) {
            hasText = true
            delta($0)
        }
        // A delta that was told cannot be taken back.
        if hasText {
            isSettled = true
            held = []
        }
        guard held.count <= RecordedStream.payloadBytesMax else {
            throw InputError(.payloadTooLarge, "standard input: nothing in \(RecordedStream.payloadBytesMax) bytes is an answer's text")
        }
    }

    /// Ends the input, as ``RecordedStream/finish(_:)``.
    mutating func finish(_ delta: (RecordedStream.Delta) -> Void) throws(InputError) -> RecordedStream.Ending {
        do throws(InputError) {
            return try stream.finish(delta)
        } catch {
            if isSettled { throw error }
            // A provider that refuses says why in one JSON object over several lines.
            var whole = RecordedStream(framing: .lines, wires: .live)
            try whole.feed(held.map { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") ? UInt8(ascii: " ") : $0 }) { _ in }
            _ = try whole.finish { _ in }
            throw error
        }
    }

    var skippedPayloads: Int { stream.skippedPayloads }
}
