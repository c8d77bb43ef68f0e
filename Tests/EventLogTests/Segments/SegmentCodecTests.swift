import Testing

@testable import EventLog

@Suite("Segments") struct SegmentCodecTests {
    let directory = TemporaryDirectory()

    private func open(_ name: String = "s") throws -> EventStore {
        try EventStore.open(at: directory.path + "/" + name, options: StoreOptions(journalBytesMax: 256 << 10))
    }

    /// Events of all kinds, one of them erased.
    private func events(_ store: EventStore) throws -> [RecordedEvent] {
        try talk(store)
        try store.erase(log: .conversation(conversation(1)), seq: 3)
        try talk(store, round: 1)
        let events = try store.all()
        #expect(Set(events.compactMap(\.event.content.kind)) == Set(Event.Kind.allCases))
        let hasErased = events.contains { $0.isErased }
        #expect(hasErased)
        return events
    }

    @Test("decode(encode(x)) is x, whatever the store's positions; one encoder's second segment is as its first")
    func roundTrip() throws {
        let store = try open()
        let events = try events(store)
        let encoder = SegmentEncoder()
        for range in [0..<events.count, 5..<6, 3..<90] {
            let part = events[range].map(\.shipped)
            let bytes = try encoder.encode(part)
            let decoded = try SegmentCodec.decode(bytes)
            #expect(decoded == part)
            #expect(try SegmentCodec.encode(Array(events[range])) == bytes)
        }
        try store.close()
    }

    @Test("Stored runs are segments as they are, and together all that is archived")
    func stored() throws {
        let store = try open()
        _ = try events(store)
        #expect(try store.storedRun(containing: store.lastPosition) == nil)
        try store.flush()
        try talk(store, round: 2)
        try store.flush()
        let events = try store.all()
        var found: [RecordedEvent] = []
        var runs = 0
        while let run = try store.storedRun(containing: Position(found.count) + 1) {
            #expect(run.firstPosition == Position(found.count) + 1)
            let part = try SegmentCodec.decode(run.bytes)
            #expect(part.count == run.eventCount)
            for slice in run.slices {
                let own = part.filter { $0.log == slice.log }.map(\.seq)
                #expect(own == Array(slice.firstSeq..<slice.firstSeq + Seq(slice.count)))
            }
            #expect(Set(part.map(\.log)).count == run.slices.count)
            #expect(try store.storedRun(containing: run.firstPosition + Position(run.eventCount) - 1)?.bytes == run.bytes)
            found += part
            runs += 1
        }
        #expect(found == events.map(\.shipped))
        #expect(runs > 1)
        #expect(try store.storedRun(containing: 0) == nil)
        try store.close()
    }

    @Test("I7: what holds more than agreed is refused before it is decompressed")
    func limits() throws {
        let store = try open()
        let long = ["a", "b"].map { String(repeating: $0, count: 1 << 20) }
        _ = try store.appendBlocking([created(1), sent(1, in: 1, long[0]), sent(2, in: 1, long[1])])
        let events = try store.all().map(\.shipped)
        let bytes = try SegmentCodec.encode(events)
        #expect(bytes.count < 2000)
        #expect(try SegmentCodec.decode(bytes) == events)
        #expect(error { try SegmentCodec.decode(bytes, rawBytesMax: 2 << 20) } == .tooLarge)
        #expect(error { try SegmentCodec.decode(bytes, eventsMax: 2) } == .tooLarge)
        #expect(error { try SegmentCodec.decode([]) } == .malformed)
        try store.close()
    }

    private func error(_ body: () throws -> Void) -> SegmentError.Code? {
        do {
            try body()
            return nil
        } catch {
            return (error as? SegmentError)?.code
        }
    }

    private func error<R>(_ body: () throws -> R) -> SegmentError.Code? { error { () throws -> Void in _ = try body() } }

    /// A segment of events as no store writes them.
    ///
    /// - Parameter isAllRest: texts are put among the rest.
    private func forged(_ events: [(Envelope, [UInt8], Hash256?)], isAllRest: Bool = false) throws -> [UInt8] {
        var bodies: [UnsafeMutableRawBufferPointer] = []
        defer { for body in bodies { body.deallocate() } }
        let pending = events.map { envelope, body, commitment in
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: body.count + 1, alignment: 1)
            copy.copyBytes(from: body)
            bodies.append(copy)
            let whole = UnsafeRawBufferPointer(rebasing: copy[..<body.count])
            let none = UnsafeRawBufferPointer(rebasing: copy[..<0])
            return PendingEvent(
                envelope: envelope, body: isAllRest ? BodyParts(text: none, rest: whole) : BodyParts(body: whole), commitment: commitment)
        }
        var out = ByteBuffer()
        var encoder = RunEncoder(shape: RunShape())
        _ = try encoder.encode(pending, at: 1, into: &out)
        return out.array()
    }

    @Test("I7: events that no store holds are refused, each for its reason")
    func forgeries() throws {
        let origin = Origin(replica: ReplicaID(high: 1, low: 2), counter: 1, hlc: HLC(milliseconds: 5))
        let plain = Envelope(
            log: .conversation(conversation(1)), seq: 4, origin: origin, hlc: HLC(milliseconds: 6), author: user("ann"), kind: 5, message: message(1))
        let body: [UInt8] = [1 << 3 | 2, 2, 0x68, 0x69]
        func code(_ change: (inout Envelope) -> Void = { _ in }, _ body: [UInt8] = body, _ commitment: Hash256? = nil) throws -> SegmentError.Code? {
            var envelope = plain
            change(&envelope)
            let bytes = try forged([(envelope, body, commitment)])
            return error { try SegmentCodec.decode(bytes) }
        }
        #expect(try code() == nil)
        let hidden = try forged([(plain, body, nil)], isAllRest: true)
        #expect(error { try SegmentCodec.decode(hidden) } == .malformed)
        let field2 = try forged([(plain, [6 << 3, 1], nil)], isAllRest: true)
        #expect(error { try SegmentCodec.decode(field2) } == error { try SegmentCodec.decode(forged([(plain, [6 << 3, 1], nil)])) })
        #expect(try code({ $0.seq = 0 }) == .malformed)
        #expect(try code({ $0.extra = [15 << 3, 1] }) == nil)
        for extra in [[13 << 3, 1], [15 << 3], [15 << 3, 1, 14 << 3, 1], [15 << 3 | 3]] as [[UInt8]] {
            #expect(try code({ $0.extra = extra }) == .malformed)
        }
        #expect(try code({ $0.message = nil }) == .malformed)
        #expect(try code({ $0.chunkIndex = 1 }) == .malformed)
        #expect(try code({ $0.targetSeq = 4 }) == .malformed)
        #expect(try code({ $0.log = .user(user("ann")) }) == .malformed)
        #expect(try code({ $0.kind = 77 }) == nil)
        let unknown = try code {
            $0.kind = 77
            $0.message = nil
        }
        #expect(unknown == nil)
        #expect(try code({ _ in }, body + [6 << 3, 1]) == nil)
        for rest in [[5 << 3, 1], [6 << 3], [7 << 3, 1, 6 << 3, 1], [6 << 3, 1, 6 << 3, 1]] as [[UInt8]] {
            #expect(try code({ _ in }, body + rest) == .malformed, "\(rest)")
        }
        #expect(try code({ _ in }, [2 << 3, 0]) != nil)
        #expect(try code({ _ in }, [1 << 3 | 2, 2, 0xC3, 0x28]) == .malformed)
        #expect(try code({ _ in }, [1 << 3 | 2]) == .malformed)
        #expect(try code({ _ in }, [2 << 3, 9]) == .malformed)
        #expect(try code({ _ in }, [], Hash256()) == nil)
        let joined: (inout Envelope) -> Void = {
            $0.kind = 3
            $0.message = nil
        }
        #expect(try code(joined, [1 << 3 | 2, 1, 0x62]) == nil)
        #expect(try code(joined, [1 << 3 | 2, 0]) == .malformed)
        #expect(try code(joined, [], Hash256()) == .malformed)
        let large = [UInt8](repeating: 0x61, count: EventLimits.textBytesMax + 1)
        var long = ByteBuffer()
        long.put(byte: 1 << 3 | 2)
        long.put(varint: UInt64(large.count))
        long.put(large)
        #expect(try code({ _ in }, long.array()) == .tooLarge)
        #expect(throws: SegmentError.self) {
            let event = RecordedEvent(
                log: plain.log, seq: 1, position: 1, origin: origin, hlc: plain.hlc, event: sent(1, in: 1, "a").event, targetSeq: nil)
            var second = event
            second.seq = 3
            _ = try SegmentCodec.encode([event, second])
        }
    }

    /// Takes a run apart, lets a closure change ids and columns, and puts it together again with checksums that hold.
    private func changed(_ bytes: [UInt8], _ change: (inout [UInt8], inout [UInt8]) -> Void) throws -> [UInt8] {
        try bytes.withUnsafeBytes { source in
            let header = try DecodedRun.Header(source, at: 1)
            var ids = Array(source[header.raw])
            var columns = [UInt8](repeating: 0, count: header.metaBytes)
            try columns.withUnsafeMutableBytes { try ZstdDecompressor().decompress(header.columns(in: source, at: 1), into: $0) }
            change(&ids, &columns)
            var packed = ByteBuffer()
            _ = try columns.withUnsafeBytes { try ZstdCompressor(level: 1).compress($0, into: &packed) }
            var out = ByteBuffer()
            out.put(UnsafeRawBufferPointer(rebasing: source[..<16]))
            for value in [ids.count, packed.count, columns.count, header.frames.count] { out.put(fixed32: UInt32(value)) }
            out.put(fixed64: ids.withUnsafeBytes { XXH64.hash($0, seed: 1) })
            out.put(fixed64: XXH64.hash(packed.bytes, seed: 1))
            out.put(UnsafeRawBufferPointer(rebasing: source[48..<48 + 16 * header.frames.count]))
            out.put(fixed64: XXH64.hash(out.bytes, seed: 1))
            out.put(ids)
            out.put(packed.bytes)
            out.put(UnsafeRawBufferPointer(rebasing: source[header.meta.upperBound...]))
            return out.array()
        }
    }

    @Test("I7: changed bytes are refused, whether or not checksums were made to hold; what is taken has one encoding")
    func changedBytes() throws {
        let store = try open()
        let bytes = try SegmentCodec.encode(Array(events(store).prefix(120)))
        for place in stride(from: 0, to: bytes.count, by: 3) {
            var copy = bytes
            copy[place] ^= 1 << UInt8.random(in: 0..<8)
            #expect(error { try SegmentCodec.decode(copy) } == .malformed)
        }
        for end in stride(from: 0, to: bytes.count, by: 7) { #expect(error { try SegmentCodec.decode(Array(bytes[..<end])) } != nil) }
        #expect(try SegmentCodec.decode(changed(bytes) { _, _ in }).count == 120)
        var taken = 0
        for _ in 0..<3000 {
            let copy = try changed(bytes) { ids, columns in
                for _ in 0..<Int.random(in: 1...2) {
                    if Int.random(in: 0..<4) == 0 {
                        ids[Int.random(in: 0..<ids.count)] = UInt8.random(in: 0...255)
                    } else {
                        columns[Int.random(in: 0..<columns.count)] = UInt8.random(in: 0...(Bool.random() ? 3 : 255))
                    }
                }
            }
            do {
                let events = try SegmentCodec.decode(copy)
                #expect(try SegmentCodec.decode(SegmentCodec.encode(events)) == events)
                taken += 1
            } catch is SegmentError {}
        }
        #expect(taken > 0)
        try store.close()
    }

    @Test("I7: a list of message ids that says other than the events is refused")
    func forgedIDs() throws {
        let store = try open()
        _ = try store.appendBlocking([created(1), created(2), sent(1, in: 1, "a"), sent(2, in: 2, "b")])
        let bytes = try SegmentCodec.encode(store.all())
        // Three numbers, then of each slice the messages sent << 1.
        let copy = try changed(bytes) { ids, _ in
            #expect(ids[3...4] == [2, 2])
            (ids[3], ids[4]) = (4, 0)
        }
        #expect(error { try SegmentCodec.decode(copy) } == .malformed)
        try store.close()
    }
}
