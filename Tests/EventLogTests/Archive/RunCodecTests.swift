import Testing

@testable import EventLog

@Suite("Runs") struct RunCodecTests {
    /// SplitMix64 (Steele, Lea, Flood 2014): the same events at every run of the tests.
    private struct Random: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var word = state
            word = (word ^ word >> 30) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ word >> 27) &* 0x94D0_49BB_1331_11EB
            return word ^ word >> 31
        }

        mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
        mutating func isLucky(_ oneIn: Int) -> Bool { below(oneIn) == 0 }

        /// Now and then at the ends of what 64 bits hold.
        mutating func wide() -> UInt64 {
            switch below(4) {
            case 0: UInt64(below(100))
            case 1: .max - UInt64(below(3))
            case 2: next()
            default: 1 << UInt64(below(64))
            }
        }

        mutating func identifier<Tag>() -> Identifier<Tag> { Identifier(high: next(), low: next()) }
    }

    /// Events whose bytes stay in place for as long as this does.
    private final class Sample {
        var events: [PendingEvent] = []
        private var memory: [UnsafeMutableRawBufferPointer] = []

        deinit { for bytes in memory { bytes.deallocate() } }

        func keep(_ bytes: [UInt8]) -> UnsafeRawBufferPointer {
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(bytes.count, 1), alignment: 1)
            copy.copyBytes(from: bytes)
            memory.append(copy)
            return UnsafeRawBufferPointer(rebasing: copy[..<bytes.count])
        }

        /// Of all kinds, known or not; `isOdd` makes what no store of this version would write.
        init(_ random: inout Random, count: Int, isOdd: Bool, isNumbered: Bool) {
            let people = (0..<6).map { UserID($0 == 5 ? String(repeating: "x", count: 255) : "user-\($0)é")! }
            let logs: [LogID] = (0..<5).map { _ in .conversation(random.identifier()) } + people.prefix(2).map { .user($0) }
            let replicas: [ReplicaID] = (0..<3).map { _ in random.identifier() }
            var seqs = logs.map { _ in random.isLucky(2) ? Seq(1) : Seq(random.below(1 << 30)) + 1 }
            var messages: [[(seq: Seq, id: MessageID)]] = logs.map { _ in [] }
            var hlc = HLC(rawValue: random.isLucky(3) ? random.wide() : 1_767_225_600_000 << 16)
            for _ in 0..<count {
                let log = random.below(logs.count)
                let seq = seqs[log]
                seqs[log] += 1
                hlc = HLC(rawValue: random.isLucky(9) ? random.wide() : hlc.rawValue &+ UInt64(random.below(3)) << UInt64(random.below(20)))
                let originHLC =
                    random.isLucky(2)
                    ? hlc : HLC(rawValue: random.isLucky(4) ? random.wide() : hlc.rawValue &- UInt64(random.below(1 << 30)))
                let origin = Origin(
                    replica: replicas[random.below(3)], counter: random.isLucky(5) ? random.wide() : UInt64(random.below(20)),
                    hlc: originHLC)
                let author = random.below(people.count)
                var envelope = Envelope(
                    log: logs[log], seq: seq, origin: origin, hlc: hlc, author: people[author], kind: UInt32(1 + random.below(16)))
                switch RunEncoder.Form(kind: envelope.kind) {
                case .sent:
                    let id: MessageID = random.identifier()
                    envelope.message = id
                    if let target = messages[log].randomElement(using: &random), random.isLucky(3) {
                        (envelope.targetSeq, envelope.replyTo) = target
                    }
                    messages[log].append((seq, id))
                case .about:
                    if random.isLucky(6), seq > 1 {
                        // About a message of an earlier run.
                        messages[log].append((1 + random.next() % (seq - 1), random.identifier()))
                    }
                    if let target = messages[log].randomElement(using: &random) { (envelope.targetSeq, envelope.message) = target }
                    if random.isLucky(2) { envelope.chunkIndex = UInt32(random.below(4)) }
                case .plain: break
                }
                if isOdd, random.isLucky(3) {
                    if random.isLucky(3) { envelope.kind = UInt32(truncatingIfNeeded: random.wide()) | 1 }
                    if random.isLucky(3) { envelope.message = random.isLucky(2) ? nil : random.identifier() }
                    if random.isLucky(3) { envelope.replyTo = random.identifier() }
                    if random.isLucky(3) { envelope.targetSeq = random.wide() }
                    if random.isLucky(3) { envelope.chunkIndex = UInt32(truncatingIfNeeded: random.wide()) }
                    if random.isLucky(3) { envelope.extra = [15 << 3, UInt8(random.below(128))] }
                }
                let text = keep((0..<(random.isLucky(3) ? 0 : random.below(400))).map { _ in UInt8(97 + random.below(20)) })
                let rest = keep((0..<(random.isLucky(3) ? random.below(40) : 0)).map { _ in UInt8(truncatingIfNeeded: random.next()) })
                var event = PendingEvent(envelope: envelope, body: BodyParts(text: text, rest: rest))
                if random.isLucky(12) {
                    event.commitment = Hash256(bytes: (0..<32).map { _ in UInt8(truncatingIfNeeded: random.next()) })
                }
                if isNumbered { (event.logNumber, event.authorNumber) = (log * 3, author * 2) }
                events.append(event)
            }
        }
    }

    private static let position: Position = 1_000_001

    private static func encoded(_ sample: Sample, shape: RunShape = RunShape()) throws -> (bytes: [UInt8], slices: [RunEncoder.Slice]) {
        var encoder = RunEncoder(shape: shape)
        var out = ByteBuffer()
        // Twice: nothing of the first may show in the second.
        _ = try encoder.encode(sample.events, at: 7, into: &out)
        out.removeAll()
        let slices = try encoder.encode(sample.events, at: position, into: &out)
        return (out.array(), slices)
    }

    private static func decoded(_ bytes: [UInt8]) throws -> DecodedRun {
        try bytes.withUnsafeBytes { try DecodedRun($0, at: position, decompressor: ZstdDecompressor()) }
    }

    /// Whether the run says what the events say, all of it.
    private static func isEqual(_ run: DecodedRun, _ sample: Sample) throws -> Bool {
        guard run.events.count == sample.events.count else { return false }
        for (index, event) in sample.events.enumerated() {
            let place = Int(run.order[index])
            let body = try run.body(at: place)
            guard run.envelope(at: place) == event.envelope, run.events[place].position == position + UInt64(index),
                run.commitments[place] == event.commitment, run.events[place].isErased == (event.commitment != nil)
            else { return false }
            if event.commitment == nil {
                guard body.text.elementsEqual(event.body.text), body.rest.elementsEqual(event.body.rest) else { return false }
            } else {
                guard body.text.isEmpty, body.rest.isEmpty else { return false }
            }
        }
        return true
    }

    @Test("what was encoded comes back", arguments: 0..<40)
    func roundTrip(_ seed: Int) throws {
        var random = Random(state: UInt64(seed))
        let sample = Sample(&random, count: 1 + random.below(700), isOdd: seed % 2 == 1, isNumbered: seed % 3 == 0)
        var shape = RunShape()
        shape.textFrameBytes = 1 << (8 + random.below(8))
        let (bytes, slices) = try Self.encoded(sample, shape: shape)
        let run = try Self.decoded(bytes)
        #expect(try Self.isEqual(run, sample))
        #expect(slices.map(\.log) == run.slices.map(\.log))
        for (number, slice) in slices.enumerated() {
            #expect(run.slices[number].firstSeq == slice.firstSeq && run.slices[number].range.count == slice.count)
            let ids = try bytes.withUnsafeBytes { try DecodedRun.messageIDs($0, at: Self.position, slice: number) }
            #expect(ids.count == slice.messages)
        }
    }

    @Test("an event's stamp, read alone, is what the whole run says of it", arguments: 0..<40)
    func stamps(_ seed: Int) throws {
        var random = Random(state: UInt64(seed))
        let sample = Sample(&random, count: 1 + random.below(300), isOdd: seed % 2 == 1, isNumbered: seed % 3 == 0)
        let bytes = try Self.encoded(sample).bytes
        let run = try Self.decoded(bytes)
        let decompressor = ZstdDecompressor()
        func stamp(_ slice: Int, _ event: Int) throws -> (slice: DecodedRun.Slice, stamp: EventStamp)? {
            try bytes.withUnsafeBytes { try DecodedRun.stamp($0, at: Self.position, slice: slice, event: event, decompressor: decompressor) }
        }
        for (number, slice) in run.slices.enumerated() {
            for (index, place) in slice.range.enumerated() {
                let found = try #require(try stamp(number, index))
                let envelope = run.envelope(at: place)
                #expect(
                    found.stamp
                        == EventStamp(
                            position: run.events[place].position, hlc: envelope.hlc, replica: envelope.origin.replica, counter: envelope.origin.counter))
                #expect(found.slice.log == slice.log && found.slice.firstSeq == slice.firstSeq && found.slice.range == slice.range)
            }
            #expect(try stamp(number, slice.range.count) == nil)
            #expect(try stamp(number, -1) == nil)
        }
        #expect(try stamp(run.slices.count, 0) == nil)
        #expect(try stamp(-1, 0) == nil)
    }

    @Test("a numbered run is the same run")
    func numbering() throws {
        var one = Random(state: 99)
        var other = Random(state: 99)
        let plain = Sample(&one, count: 300, isOdd: true, isNumbered: false)
        let numbered = Sample(&other, count: 300, isOdd: true, isNumbered: true)
        #expect(try Self.isEqual(Self.decoded(Self.encoded(numbered).bytes), plain))
    }

    @Test("seqs with a hole are refused")
    func hole() throws {
        var random = Random(state: 5)
        let sample = Sample(&random, count: 60, isOdd: false, isNumbered: false)
        sample.events[59].envelope.seq += 1
        #expect(throws: CodecError.self) { try Self.encoded(sample) }
    }

    /// Reads everything; what it says of itself may be wrong, but it must not trap.
    private static func readAll(_ bytes: [UInt8], _ sample: Sample) -> Bool? {
        do {
            let run = try decoded(bytes)
            // The bodies are random: what an event makes of them is not this test's, but it must not trap.
            for place in run.events.indices {
                _ = try? run.recorded(at: place)
                _ = try? run.effect(at: place)
            }
            for (number, slice) in run.slices.enumerated() {
                _ = try? bytes.withUnsafeBytes {
                    try DecodedRun.stamp($0, at: position, slice: number, event: slice.range.count - 1, decompressor: ZstdDecompressor())
                }
            }
            return try isEqual(run, sample)
        } catch {
            return nil
        }
    }

    @Test("any damaged byte is an error")
    func damage() throws {
        var random = Random(state: 11)
        let sample = Sample(&random, count: 20, isOdd: true, isNumbered: false)
        let whole = try Self.encoded(sample).bytes
        for place in whole.indices {
            var bytes = whole
            bytes[place] ^= UInt8(1) << UInt8(random.below(8))
            #expect(Self.readAll(bytes, sample) != false, "byte \(place)")
        }
        for length in stride(from: 0, to: whole.count, by: 7) { #expect(Self.readAll(Array(whole[..<length]), sample) == nil) }
        #expect(Self.readAll(whole + [0], sample) == nil)
    }

    @Test("I7: a run at a position that no store reaches is an error, whatever its checksums", arguments: [0, 1 << 62, .max] as [Position])
    func unreachablePosition(_ position: Position) throws {
        var random = Random(state: 5)
        let sample = Sample(&random, count: 20, isOdd: false, isNumbered: false)
        var encoder = RunEncoder(shape: RunShape())
        var out = ByteBuffer()
        _ = try encoder.encode(sample.events, at: position, into: &out)
        #expect(throws: RunError.self) { try DecodedRun(out.bytes, at: position, decompressor: ZstdDecompressor()) }
    }

    /// A run's bytes with other sections in place, and checksums that hold.
    private static func reassembled(_ bytes: [UInt8], raw: [UInt8], meta: [UInt8], events: Int, slices: Int) throws -> [UInt8] {
        let header = try bytes.withUnsafeBytes { try DecodedRun.Header($0, at: position) }
        var compressed = ByteBuffer()
        _ = try meta.withUnsafeBytes { try ZstdCompressor(level: 1).compress($0, into: &compressed) }
        var out = ByteBuffer()
        for number in [
            RunEncoder.magic, 0, UInt32(events), UInt32(slices), UInt32(raw.count), UInt32(compressed.count), UInt32(meta.count),
        ] {
            out.put(fixed32: number)
        }
        out.put(fixed32: UInt32(header.frames.count))
        out.put(fixed64: raw.withUnsafeBytes { XXH64.hash($0, seed: position) })
        out.put(fixed64: XXH64.hash(compressed.bytes, seed: position))
        for frame in header.frames {
            out.put(fixed32: UInt32(frame.range.count))
            out.put(fixed32: UInt32(frame.raw))
            out.put(fixed64: frame.checksum)
        }
        out.put(fixed64: XXH64.hash(out.bytes, seed: position))
        out.put(raw)
        out.put(compressed.bytes)
        out.put(Array(bytes[header.meta.upperBound...]))
        return out.array()
    }

    @Test("forged sections, whose checksums hold, are an error or another run, never a trap", arguments: 0..<4)
    func forgery(_ seed: Int) throws {
        var random = Random(state: 1000 + UInt64(seed))
        let sample = Sample(&random, count: 40, isOdd: seed % 2 == 1, isNumbered: false)
        let whole = try Self.encoded(sample).bytes
        let header = try whole.withUnsafeBytes { try DecodedRun.Header($0, at: Self.position) }
        var meta = [UInt8](repeating: 0, count: header.metaBytes)
        try whole.withUnsafeBytes { bytes in
            try meta.withUnsafeMutableBytes {
                try ZstdDecompressor().decompress(UnsafeRawBufferPointer(rebasing: bytes[header.meta]), into: $0)
            }
        }
        let raw = Array(whole[header.raw])
        let same = try Self.reassembled(whole, raw: raw, meta: meta, events: header.events, slices: header.slices)
        #expect(Self.readAll(same, sample) == true)

        func attempt(_ raw: [UInt8], _ meta: [UInt8], _ events: Int, _ slices: Int) throws {
            let forged = try Self.reassembled(whole, raw: raw, meta: meta, events: events, slices: slices)
            _ = Self.readAll(forged, sample)
            for slice in -1...slices { _ = try? forged.withUnsafeBytes { try DecodedRun.messageIDs($0, at: Self.position, slice: slice) } }
        }
        for place in meta.indices {
            for value in [UInt8(0), 0x7F, 0xFF, meta[place] ^ 1 << UInt8(random.below(8))] {
                var forged = meta
                forged[place] = value
                try attempt(raw, forged, header.events, header.slices)
            }
        }
        for place in 0..<min(raw.count, 64) {
            for value in [UInt8(0), 0x7F, 0x80, 0xFF] {
                var forged = raw
                forged[place] = value
                try attempt(forged, meta, header.events, header.slices)
            }
        }
        for _ in 0..<200 {
            // Long varints, spliced in or over what is there.
            var forged = meta
            let place = random.below(forged.count)
            let number = Array(repeating: UInt8(0xFF), count: random.below(9)) + [random.isLucky(2) ? 1 : 0x7F]
            if random.isLucky(2) {
                forged.replaceSubrange(place..<min(place + number.count, forged.count), with: number)
            } else {
                forged.insert(contentsOf: number, at: place)
            }
            try attempt(raw, forged, header.events, header.slices)
        }
        for events in [0, 1, header.events - 1, header.events + 1, header.metaBytes, Int(UInt32.max)] {
            for slices in [0, 1, header.slices + 1, events] where slices <= 1 << 20 { try attempt(raw, meta, events, slices) }
        }
    }
}
