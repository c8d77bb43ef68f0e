import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@testable import EventLog

/// What finds runs where the tree does not lead to them, or leads too far.
extension RunParityTests {
    private func archive() throws -> [UInt8] { try File(directory.store + "/archive", O_RDONLY).read(1 << 24, at: 0) }
    private func put(_ bytes: [UInt8]) throws { try Self.write(bytes, directory.store + "/archive") }

    /// Where a value begins that lies in the file.
    private func place(of value: [UInt8], in file: [UInt8]) throws -> Int { try #require(file.firstRange(of: value.prefix(2000))?.lowerBound) }

    @Test("a run whose first page is lost is found by the leaf that names it, without the page that leads there") func named() throws {
        try fill(runs: 3)
        let (events, _) = try saved()
        let sound = try archive()
        let run = try runs()[1]
        var bytes = sound
        // The main database's record of the table, and the head of the run.
        for record in sound.ranges(of: [2, 0, 4, 0] + Array("runs".utf8)) { bytes[record.lowerBound] ^= 0xFF }
        let first = try place(of: run.bytes, in: sound)
        for place in first..<first + 300 { bytes[place] = 0 }
        try put(bytes)
        let (found, lines) = try saved()
        #expect(found == events, "\(found.count); \(lines)")
    }

    @Test("a bit of the key of a run that lies in its leaf takes it from nobody") func inlineKey() throws {
        let store = try EventStore.open(at: directory.store)
        for number in 1...5 as ClosedRange<UInt64> {
            _ = try store.appendBlocking([created(number), sent(number, in: number, "small")])
            try store.flush()
        }
        try store.close()
        let (events, _) = try saved()
        let sound = try archive()
        let inline = try runs()
        #expect(inline.count == 5 && inline.allSatisfy { $0.bytes.count < 1500 })
        for run in inline.dropFirst() {
            for (byte, bit) in [(7, 4), (7, 7), (6, 0), (0, 7)] as [(Int, UInt8)] {
                var bytes = sound
                for range in sound.ranges(of: run.bytes) { bytes[range.lowerBound - 8 + byte] ^= 1 << bit }
                try put(bytes)
                let (found, lines) = try saved()
                #expect(found == events, "\(run.position), byte \(byte): \(found.count); \(lines)")
            }
        }
    }

    @Test("a file that is cut within a run loses nothing that parity tells") func cut() throws {
        try fill(runs: 2)
        let (events, _) = try saved()
        var bytes = try archive()
        let run = try runs()[0]
        // It is moved to the file's end.
        func little(_ number: Int) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } }
        let start = try place(of: run.bytes, in: bytes) - 16, pages = (16 + run.bytes.count + 4095) / 4096
        let (old, new) = (start / 4096, bytes.count / 4096)
        let nodes = bytes.ranges(of: Archive.key(position: run.position) + little(old))
        #expect(start % 4096 == 0 && !nodes.isEmpty)
        for node in nodes { bytes.replaceSubrange(node.upperBound - 8..<node.upperBound, with: little(new)) }
        bytes += little(new) + bytes[start + 8..<start + pages * 4096]
        for place in start..<start + pages * 4096 { bytes[place] = 0 }
        for meta in 0..<2 { bytes.replaceSubrange(meta * 4096 + 136..<meta * 4096 + 144, with: little(new + pages - 1)) }
        try put(bytes)
        #expect(try saved().events == events)
        let end = new * 4096 + 16 + run.bytes.count
        for (cut, least) in [(1, events.count), ((end - 1) % 4096, events.count), (run.bytes.count / 3, 600)] {
            try put(Array(bytes[..<(end - cut)]))
            let (found, lines) = try saved()
            #expect(found.count >= least && found.allSatisfy { events.contains($0) }, "\(cut) bytes: \(found.count); \(lines)")
        }
    }

    @Test("a run that nothing names hides none that is known") func shadow() throws {
        // Of others, as long as what it would cover.
        let other = try EventStore.open(at: directory.path + "/other")
        _ = try other.appendBlocking([created(5, by: "admin")] + (0..<700).map { sent($0, in: 5, by: "admin", "pay \($0)") })
        try other.flush()
        var forged = try #require(try other.storedRun(containing: 1)).bytes
        try other.close()
        try fill(runs: 3)
        let (events, _) = try saved()
        let sound = try archive()
        let known = try runs()
        try DecodedRun.move(&forged, from: SegmentCodec.position, to: known[1].position)
        var bytes = sound
        // The second run is lost for good, and not all rows can be read; the forged one reaches over the third.
        let lost = try place(of: known[1].bytes, in: sound)
        for place in lost - 16..<lost + known[1].bytes.count { bytes[place] = 0 }
        let rows = sound.ranges(of: [0, 0, 17, 0] + Archive.key(log: events[1].log))
        #expect(!rows.isEmpty)
        for row in rows { bytes[row.upperBound + 9] ^= 1 }
        bytes += [UInt8](repeating: 0, count: 16) + forged
        bytes += [UInt8](repeating: 0, count: 4096 - bytes.count % 4096)
        try put(bytes)
        let (found, lines) = try saved()
        let kept = events.filter { $0.position < known[1].position || $0.position >= known[2].position }
        #expect(found.filter { $0.event.author != user("admin") } == kept, "\(found.count); \(lines)")
    }

    @Test("what the first meta page says of the page size is not believed where the second one lies elsewhere") func pageSize() throws {
        try fill(runs: 2)
        let (events, _) = try saved()
        let sound = try archive()
        for value in [0x20, 0x40, 0x80] as [UInt8] {
            for losesSecond in [false, true] {
                var bytes = sound
                bytes[41] = value
                if losesSecond { for place in 4096..<4096 + 200 { bytes[place] = 0 } }
                try put(bytes)
                let (found, lines) = try saved()
                #expect(found == events && !lines.isEmpty, "\(value), \(losesSecond): \(found.count); \(lines)")
                #expect(try !isSound)
            }
        }
    }

    @Test("rows that tell more events than any number holds end no salvage") func sizes() throws {
        try fill()
        let (events, _) = try saved()
        do {
            let archive = try Archive(directory: directory.store, isReadOnly: false, mapBytesMax: .max / 2)
            defer { archive.environment.close() }
            try archive.environment.write { transaction in
                for number in 0..<40 as Range<UInt64> {
                    let log = LogID.conversation(conversation(1000 + number))
                    var forged = LogRow(id: log, number: 1000 + number)
                    forged.seq = 1 << 59
                    forged.slices = [LogRow.Slice(run: 1, index: 0, firstSeq: 1, count: 1 << 59, messages: 0)]
                    forged.tree = CompactRange()
                    forged.tree.append(Hash256(), level: 59)
                    var out = ByteBuffer(capacity: 1 << 12)
                    forged.encode(into: &out)
                    forged.encodeLanes(into: &out) { _ in 0 }
                    try transaction.put(archive.logs, Archive.key(log: log), Archive.sealed(Archive.key(log: log), out.array()))
                }
            }
        }
        let found = try saved().events
        #expect(found == events)
        _ = EventStore.salvageHeads(at: directory.store)?.isWhole
    }
}
