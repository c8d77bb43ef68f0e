@testable import EventLog
import Interchange

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// What libFuzzer calls with each input. FUZZ_TARGET names the decoder: one binary serves all.
@_cdecl("LLVMFuzzerTestOneInput") public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = Array(UnsafeBufferPointer(start: start, count: count))
    switch target {
    case "event": Fuzz.event(input)
    case "run": Fuzz.run(input)
    case "frame": Fuzz.frame(input)
    case "journal": Fuzz.journal(input)
    case "line": Fuzz.line(input)
    case "stream": Fuzz.stream(input)
    case "wire": WireFuzz.frame(input)
    default: fatalError("FUZZ_TARGET is none of event, run, frame, journal, line, stream, wire")
    }
    return 0
}

private let target = getenv("FUZZ_TARGET").map { String(cString: $0) } ?? ""
private let storeID = StoreID(high: 1, low: 2)
private let scratch = "\(getenv("FUZZ_SCRATCH").map { String(cString: $0) } ?? "/tmp")/fuzz-journal-\(getpid())"
private nonisolated(unsafe) let decompressor = ZstdDecompressor()

/// Each decoder takes any bytes and answers with a value or a typed error; what it took must survive a round trip.
private enum Fuzz {
    /// Two bytes: the envelope's length; then the envelope; then the body.
    static func event(_ input: [UInt8]) {
        guard input.count >= 2 else { return }
        let length = min(Int(input[0]) | Int(input[1]) << 8, input.count - 2)
        let envelope = Array(input[2..<2 + length])
        let body = Array(input[(2 + length)...])
        guard let record = try? EventCodec.decode(envelope: envelope, body: body) else { return }
        let again = EventCodec.encode(record)
        // Fields of a newer version are kept by who stores the bytes, not by the value: only what is known must come back.
        guard again.envelope.count == envelope.count, again.body.count == body.count else { return }
        precondition(again.envelope == envelope && again.body == body, "an event changed by a round trip")
    }

    /// A run's value, its checksums mended where the header lets them be found; then all that can be asked of it.
    static func run(_ input: [UInt8]) {
        var bytes = input
        mend(&bytes)
        restore(bytes)
        bytes.withUnsafeBytes { bytes in
            for slice in 0..<3 { _ = try? DecodedRun.messageIDs(bytes, at: 1, slice: slice) }
            for slice in 0..<3 { _ = try? DecodedRun.stamp(bytes, at: 1, slice: slice, event: 3, decompressor: decompressor) }
            guard let run = try? DecodedRun(bytes, at: 1, decompressor: decompressor) else { return }
            for place in run.events.indices {
                _ = try? run.recorded(at: place)
                _ = try? run.effect(at: place)
            }
            for (number, slice) in run.slices.enumerated() {
                let item = run.events[slice.range.upperBound - 1]
                let alone = try? DecodedRun.stamp(bytes, at: 1, slice: number, event: slice.range.count - 1, decompressor: decompressor)
                precondition(
                    alone?.stamp
                        == EventStamp(position: item.position, hlc: HLC(rawValue: item.hlc), replica: run.replicas[Int(item.replica)], counter: item.counter),
                    "a stamp that the run does not bear out")
            }
        }
    }

    /// Bytes that a run loses in a row are found again by its parity, if all its checksums held; and none that is wrong makes anything else of it.
    private static func restore(_ run: [UInt8]) {
        var parity = [UInt8](repeating: 0, count: RunParity.byteCount)
        for (place, byte) in run.enumerated() { parity[place % parity.count] ^= byte }
        guard let last = run.last, run.withUnsafeBytes({ DecodedRun.isSound($0, at: 1) }) else {
            _ = RunParity.restored(run, by: parity, at: 1)
            return
        }
        let start = Int(run[0] ^ last) * 7919 % run.count
        var spoiled = run
        for place in start..<min(start + 1 + Int(last) * 16, run.count) { spoiled[place] &= 0x0F }
        if spoiled != run { precondition(RunParity.restored(spoiled, by: parity, at: 1) == run, "a run that parity does not restore") }
        parity[start % parity.count] ^= 1
        // Where that differs beside what was lost, this may be found all the same.
        let found = RunParity.restored(spoiled, by: parity, at: 1)
        precondition(found == nil || found == run, "a run that wrong parity makes another")
    }

    private static func mend(_ bytes: inout [UInt8]) {
        guard bytes.count >= 56 else { return }
        func number(_ at: Int) -> Int { Int(bytes[at]) | Int(bytes[at + 1]) << 8 | Int(bytes[at + 2]) << 16 | Int(bytes[at + 3]) << 24 }
        func hash(_ range: Range<Int>) -> UInt64 { bytes.withUnsafeBytes { XXH64.hash(UnsafeRawBufferPointer(rebasing: $0[range]), seed: 1) } }
        func put(_ value: UInt64, at: Int) { for index in 0..<8 { bytes[at + index] = UInt8(truncatingIfNeeded: value >> UInt64(8 * index)) } }
        let raw = number(16)
        let compressed = number(20)
        let frames = number(28)
        let end = 48 + frames * 16
        guard frames < 1000, end + 8 + raw + compressed <= bytes.count else { return }
        put(hash(end + 8..<end + 8 + raw), at: 32)
        put(hash(end + 8 + raw..<end + 8 + raw + compressed), at: 40)
        var offset = end + 8 + raw + compressed
        for frame in 0..<frames {
            let length = number(48 + frame * 16)
            guard offset + length <= bytes.count else { break }
            offset += length
        }
        put(hash(0..<end), at: end)
    }

    /// A frame's payload.
    static func frame(_ input: [UInt8]) {
        input.withUnsafeBytes { bytes in
            guard let events = bytes.first,
                let frame = try? TailFrame(UnsafeRawBufferPointer(rebasing: bytes[1...]), number: 1, firstPosition: 1, events: Int(events))
            else { return }
            for index in frame.items.indices {
                _ = try? frame.recorded(index)
                if let envelope = try? frame.envelope(index) { _ = try? Effect(envelope: envelope, body: BodyParts(body: frame.bodyBytes(index))) }
            }
            for other in frame.others {
                _ = try? MarkRecord(decoding: frame.other(other.range))
                _ = try? SecretRecord(decoding: frame.other(other.range))
            }
            _ = try? LogRow(key: [0] + [UInt8](repeating: 7, count: 16), decoding: UnsafeRawBufferPointer(rebasing: bytes[1...])) {
                ReplicaID(high: 0, low: $0)
            }
            _ = try? LogPlaces(of: .conversation(ConversationID(high: 7, low: 7)), decoding: UnsafeRawBufferPointer(rebasing: bytes[1...]))
            _ = try? Archive.State(decoding: UnsafeRawBufferPointer(rebasing: bytes[1...]))
        }
    }

    /// Up to four journal files, cut at a mark; frames' checksums are mended where the lengths hold.
    static func journal(_ input: [UInt8]) {
        guard let first = input.first else { return }
        mkdir(scratch, 0o700)
        let files = input.dropFirst().split(separator: 0xA5, maxSplits: 3, omittingEmptySubsequences: false)
        for slot in 0..<FileJournal.fileCount {
            unlink(FileJournal.path(scratch, slot))
            guard slot < files.count, let file = try? File(FileJournal.path(scratch, slot), O_RDWR | O_CREAT) else { continue }
            var bytes = Array(files[slot])
            sealFrames(&bytes)
            try? bytes.withUnsafeBytes { try file.write($0, at: 0) }
        }
        _ = try? RecoveredJournal(directory: scratch, store: storeID, archivedPosition: UInt64(first & 15), archivedFrame: UInt64(first >> 4))
    }

    private static func sealFrames(_ bytes: inout [UInt8]) {
        var offset = 0
        while offset + Frame.headerBytes <= bytes.count {
            let payload = min(Int(bytes[offset + 4]), bytes.count - offset - Frame.headerBytes)
            var frame = ByteBuffer(capacity: 512)
            bytes[offset..<offset + Frame.headerBytes + payload].withUnsafeBytes { frame.put($0) }
            let header = Frame.Header(
                payloadBytes: payload, checksum: 0, store: storeID, generation: UInt64(bytes[offset + 32]), number: UInt64(bytes[offset + 40]),
                syncedThrough: UInt64(bytes[offset + 48]), previousChecksum: UInt64(bytes[offset + 56]), firstPosition: UInt64(bytes[offset + 64]),
                events: Int(bytes[offset + 72]), purpose: Frame.Purpose(rawValue: UInt32(bytes[offset + 76] & 3)) ?? .events)
            _ = Frame.seal(&frame, header)
            for (index, byte) in frame.bytes.enumerated() where offset + index < bytes.count { bytes[offset + index] = byte }
            offset += frame.count
        }
    }

    static func line(_ input: [UInt8]) {
        var decoder = EventLineDecoder()
        _ = try? decoder.decodeExact(input)
        guard let line = try? decoder.decode(input) else { return }
        _ = Acceptance.checkForm(line.event)
        let origin = line.origin ?? Origin(replica: ReplicaID(high: 0, low: 0), counter: 1, hlc: HLC(milliseconds: line.at))
        var record = RecordedEvent(
            log: line.event.log, seq: 1, position: 1, origin: origin, hlc: HLC(milliseconds: line.at), event: line.event, targetSeq: nil)
        record.origin.hlc = HLC(milliseconds: line.at)
        var again: [UInt8] = []
        EventLineEncoder().append(record, to: &again)
        guard let back = try? decoder.decode(again) else { fatalError("a line that was written cannot be read") }
        precondition(back.event == line.event && back.at == line.at, "a line changed by a round trip")
        // The canonical bytes too.
        guard Acceptance.checkForm(line.event) == nil else { return }
        let bytes = EventCodec.encode(record)
        guard let decoded = try? EventCodec.decode(envelope: bytes.envelope, body: bytes.body, position: 1) else {
            fatalError("an event that was encoded cannot be decoded")
        }
        precondition(decoded == record, "an event changed by its canonical bytes")
    }

    static func stream(_ input: [UInt8]) {
        guard let first = input.first else { return }
        var stream = RecordedStream(framing: first & 1 == 0 ? .lines : .serverSentEvents, wires: first & 2 == 0 ? .files : .live)
        var rest = input.dropFirst()
        while !rest.isEmpty {
            let piece = rest.prefix(first < 128 ? rest.count : 1 + Int(first & 63))
            rest = rest.dropFirst(piece.count)
            do { try stream.feed(Array(piece)) { precondition(!$0.text.isEmpty) } } catch { return }
        }
        _ = try? stream.finish { precondition(!$0.text.isEmpty) }
    }
}

@_silgen_name("LLVMFuzzerRunDriver") private func runDriver(
    _ count: UnsafeMutablePointer<CInt>, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ body: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// SwiftPM calls an executable's entry by its module's name; libFuzzer's own `main` is not linked.
@_cdecl("fuzz_main") public func fuzzMain(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> CInt {
    var count = count
    var arguments = arguments
    return runDriver(&count, &arguments) { fuzzOneInput($0, $1) }
}
