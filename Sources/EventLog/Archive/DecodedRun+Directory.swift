/// What a run says of its slices, without decoding the events.
extension DecodedRun {
    /// The position of each slice's last event.
    static func lastPositions(_ bytes: UnsafeRawBufferPointer, at position: Position, decompressor: ZstdDecompressor) throws -> [Position] {
        try withColumns(bytes, at: position, decompressor) { header, columns in
            var reader = columns
            _ = try reader.varint()
            for _ in 0..<2 { _ = try reader.lengthPrefixed() }  // users, directory
            var slices = ByteReader(try reader.lengthPrefixed())
            var counts = ByteReader(try reader.lengthPrefixed())
            var last = [Position](repeating: 0, count: header.slices)
            var place: UInt64 = 0
            while !slices.isAtEnd {
                let slice = try slices.varint()
                let more = try counts.varint()
                guard slice < UInt64(header.slices), more < UInt64(header.events) - place else { throw CodecError(.badValue) }
                place += more + 1
                last[Int(slice)] = position + place - 1
            }
            guard place == UInt64(header.events) else { throw CodecError(.badValue) }
            return last
        }
    }

    /// The slices, and the number of all events.
    static func directory(
        _ bytes: UnsafeRawBufferPointer, at position: Position, decompressor: ZstdDecompressor
    ) throws -> (events: Int, slices: [(log: LogID, firstSeq: Seq, count: Int)]) {
        try withColumns(bytes, at: position, decompressor) { header, columns in
            var ids = ByteReader(try header.ids(in: bytes, at: position))
            for _ in 0..<3 { _ = try ids.varint() }
            var isUsers: [Bool] = []
            for _ in 0..<header.slices { isUsers.append(try ids.varint() & 1 == 1) }
            var reader = columns
            let userCount = try reader.count()
            var strings = ByteReader(try reader.lengthPrefixed())
            var users: [UserID] = []
            for _ in 0..<userCount { users.append(try strings.user()) }
            var directory = ByteReader(try reader.lengthPrefixed())
            let slices = try isUsers.map { isUser -> (log: LogID, firstSeq: Seq, count: Int) in
                let firstSeq = try directory.varint()
                let count = try directory.varint()
                guard firstSeq < 1 << 60, count <= UInt64(header.events) else { throw CodecError(.badValue) }
                if !isUser { return (.conversation(try ids.identifier()), firstSeq, Int(count)) }
                let number = try directory.varint()
                guard number < UInt64(users.count) else { throw CodecError(.badValue) }
                return (.user(users[Int(number)]), firstSeq, Int(count))
            }
            return (header.events, slices)
        }
    }

    /// One event's stamp, and the slice that it is of; `nil`: the run has no such event.
    ///
    /// - Parameter index: the event's among those of its slice.
    static func stamp(
        _ bytes: UnsafeRawBufferPointer, at position: Position, slice: Int, event index: Int, decompressor: ZstdDecompressor
    ) throws -> (slice: Slice, stamp: EventStamp)? {
        try withColumns(bytes, at: position, decompressor) { header, columns in
            var reader = try RunColumnReader(header, ids: header.ids(in: bytes, at: position), columns: columns.bytes)
            return try reader.readStamp(slice: slice, event: index, from: position)
        }
    }

    private static func withColumns<R>(
        _ bytes: UnsafeRawBufferPointer, at position: Position, _ decompressor: ZstdDecompressor, _ body: (Header, ByteReader) throws -> R
    ) throws -> R {
        do {
            let header = try Header(bytes, at: position)
            return try withUnsafeTemporaryAllocation(byteCount: max(header.metaBytes, 1), alignment: 16) { memory in
                let columns = UnsafeMutableRawBufferPointer(rebasing: memory[..<header.metaBytes])
                try decompressor.decompress(header.columns(in: bytes, at: position), into: columns)
                return try body(header, ByteReader(UnsafeRawBufferPointer(columns)))
            }
        } catch {
            throw RunError(position: position, underlying: error)
        }
    }

    /// Whether all checksums of a run hold; there is no byte of it that none of them covers.
    static func isSound(_ bytes: UnsafeRawBufferPointer, at position: Position) -> Bool { damagedSections(bytes, at: position).isEmpty }

    /// A part of a run that has a checksum.
    struct Section {
        var range: Range<Int>
        /// `nil` of the header, which has its own.
        var checksum: UInt64?

        func isSound(in run: UnsafeRawBufferPointer, at position: Position) -> Bool {
            guard let checksum else { return (try? Header(run, at: position)) != nil }
            return XXH64.hash(UnsafeRawBufferPointer(rebasing: run[range]), seed: position) == checksum
        }
    }

    /// The parts of a run of which the checksums do not hold, ascending; where that is the header nothing else is looked at.
    static func damagedSections(_ bytes: UnsafeRawBufferPointer, at position: Position) -> [Section] {
        guard let header = try? Header(bytes, at: position) else { return [Section(range: 0..<min(bytes.count, Header.usualBytesMax))] }
        let sections = [(header.raw, header.rawChecksum), (header.meta, header.metaChecksum)] + header.frames.map { ($0.range, $0.checksum) }
        return sections.map { Section(range: $0, checksum: $1) }.filter { !$0.isSound(in: bytes, at: position) }
    }

    /// What a run holds, in the order of the commits; `nil` if more of it is damaged than its texts.
    static func spans(of bytes: [UInt8], at position: Position) -> [EventSpan]? {
        guard let run = try? bytes.withUnsafeBytes({ try DecodedRun($0, at: position, decompressor: ZstdDecompressor()) }) else { return nil }
        var spans: [EventSpan] = []
        var last: UInt32?
        for place in run.order {
            let event = run.events[Int(place)]
            if event.slice == last {
                spans[spans.count - 1].count += 1
            } else {
                spans.append(EventSpan(log: run.slices[Int(event.slice)].log, firstSeq: event.seq, count: 1))
                last = event.slice
            }
        }
        return spans
    }

    /// Makes a run one of another first position, on which all its checksums rest. Checks those that it has.
    static func move(_ bytes: inout [UInt8], from old: Position, to new: Position) throws {
        do {
            try bytes.withUnsafeMutableBytes { bytes in
                let run = UnsafeRawBufferPointer(bytes)
                let header = try Header(run, at: old)
                func put(_ sum: UInt64, at offset: Int) { bytes.storeBytes(of: sum.littleEndian, toByteOffset: offset, as: UInt64.self) }
                let ids = try header.ids(in: run, at: old)
                let columns = try header.columns(in: run, at: old)
                put(XXH64.hash(ids, seed: new), at: 32)
                put(XXH64.hash(columns, seed: new), at: 40)
                for (index, frame) in header.frames.enumerated() {
                    let section = UnsafeRawBufferPointer(rebasing: run[frame.range])
                    guard XXH64.hash(section, seed: old) == frame.checksum else { throw ChecksumMismatch(part: "texts") }
                    put(XXH64.hash(section, seed: new), at: 48 + index * 16 + 8)
                }
                let end = header.raw.lowerBound - 8
                put(XXH64.hash(UnsafeRawBufferPointer(rebasing: run[..<end]), seed: new), at: end)
            }
        } catch {
            throw RunError(position: old, underlying: error)
        }
    }
}
