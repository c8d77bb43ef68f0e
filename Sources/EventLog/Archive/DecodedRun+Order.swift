extension DecodedRun {
    /// The position of each slice's last event, without decoding the events.
    static func lastPositions(_ bytes: UnsafeRawBufferPointer, at position: Position, decompressor: ZstdDecompressor) throws -> [Position] {
        do {
            let header = try Header(bytes, at: position)
            return try withUnsafeTemporaryAllocation(byteCount: max(header.metaBytes, 1), alignment: 16) { memory in
                let columns = UnsafeMutableRawBufferPointer(rebasing: memory[..<header.metaBytes])
                try decompressor.decompress(header.columns(in: bytes, at: position), into: columns)
                var reader = ByteReader(UnsafeRawBufferPointer(columns))
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
        } catch {
            throw RunError(position: position, underlying: error)
        }
    }
}
