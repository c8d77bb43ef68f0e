extension DecodedRun {
    /// The sections of a run, checked as far as the header goes.
    struct Header {
        var events: Int
        var slices: Int
        var raw: Range<Int>
        var meta: Range<Int>
        var metaBytes: Int
        var rawChecksum: UInt64
        var metaChecksum: UInt64
        var frames: [(range: Range<Int>, raw: Int, checksum: UInt64)] = []

        /// More than any writer puts into a run. Columns of nothing but zeros compress so well that a few kilobytes could tell of a hundred million events.
        private static let eventsMax = 1 << 20
        /// No writer's run has so many frames of texts that its header takes more.
        static let usualBytesMax = 4096

        init(_ bytes: UnsafeRawBufferPointer, at position: Position) throws {
            var reader = ByteReader(bytes)
            guard try reader.fixed32() == RunEncoder.magic, try reader.fixed32() == 0 else { throw CodecError(.badValue) }
            events = Int(try reader.fixed32())
            slices = Int(try reader.fixed32())
            let rawBytes = Int(try reader.fixed32())
            let compressed = Int(try reader.fixed32())
            metaBytes = Int(try reader.fixed32())
            let count = Int(try reader.fixed32())
            rawChecksum = try reader.fixed64()
            metaChecksum = try reader.fixed64()
            // Positions that no store reaches: what follows counts on from them.
            guard 1..<1 << 62 ~= position, count <= reader.remaining / 16, metaBytes <= 256 << 20, events <= min(metaBytes, Self.eventsMax), slices <= events
            else {
                throw CodecError(.badValue)
            }
            var table: [(Int, Int, UInt64)] = []
            for _ in 0..<count { table.append((Int(try reader.fixed32()), Int(try reader.fixed32()), try reader.fixed64())) }
            let end = reader.offset
            guard try reader.fixed64() == XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[..<end]), seed: position) else {
                throw ChecksumMismatch(part: "header")
            }
            raw = reader.offset..<reader.offset + rawBytes
            meta = raw.upperBound..<raw.upperBound + compressed
            var offset = meta.upperBound
            for entry in table {
                guard entry.1 <= 64 << 20 else { throw CodecError(.tooLarge) }
                frames.append((offset..<offset + entry.0, entry.1, entry.2))
                offset += entry.0
            }
            guard offset == bytes.count else { throw CodecError(.truncated) }
        }

        /// The bytes of the ids, checked.
        func ids(in bytes: UnsafeRawBufferPointer, at position: Position) throws -> UnsafeRawBufferPointer {
            let section = UnsafeRawBufferPointer(rebasing: bytes[raw])
            guard XXH64.hash(section, seed: position) == rawChecksum else { throw ChecksumMismatch(part: "ids") }
            return section
        }

        /// The compressed columns, checked.
        func columns(in bytes: UnsafeRawBufferPointer, at position: Position) throws -> UnsafeRawBufferPointer {
            let section = UnsafeRawBufferPointer(rebasing: bytes[meta])
            guard XXH64.hash(section, seed: position) == metaChecksum else { throw ChecksumMismatch(part: "columns") }
            return section
        }
    }

    /// The ids of a slice's own messages, without decompressing anything.
    static func messageIDs(_ bytes: UnsafeRawBufferPointer, at position: Position, slice wanted: Int) throws -> [MessageID] {
        let (counts, list) = try messageList(bytes, at: position)
        guard counts.indices.contains(wanted) else { return [] }
        var reader = list
        _ = try reader.take(counts[..<wanted].reduce(0, +) * 16)
        return try messageIDs(&reader, counts[wanted])
    }

    /// The ids of each slice's own messages.
    static func messageIDs(_ bytes: UnsafeRawBufferPointer, at position: Position) throws -> [[MessageID]] {
        var (counts, list) = try messageList(bytes, at: position)
        return try counts.map { try messageIDs(&list, $0) }
    }

    private static func messageIDs(_ reader: inout ByteReader, _ count: Int) throws -> [MessageID] {
        guard count <= reader.remaining / 16 else { throw CodecError(.truncated) }
        var result: [MessageID] = []
        result.reserveCapacity(count)
        for _ in 0..<count { result.append(try reader.identifier()) }
        return result
    }

    /// How many messages each slice sent, and where their ids lie one after the other.
    private static func messageList(_ bytes: UnsafeRawBufferPointer, at position: Position) throws -> ([Int], ByteReader) {
        let header = try Header(bytes, at: position)
        var reader = ByteReader(try header.ids(in: bytes, at: position))
        for _ in 0..<3 { _ = try reader.varint() }
        var counts: [Int] = []
        counts.reserveCapacity(min(header.slices, reader.remaining))
        var conversations = 0
        for _ in 0..<header.slices {
            let entry = try reader.varint()
            if entry & 1 == 0 { conversations += 1 }
            guard entry >> 1 <= UInt64(header.events) else { throw CodecError(.badValue) }
            counts.append(Int(entry >> 1))
        }
        _ = try reader.take(conversations * 16)
        return (counts, reader)
    }
}
