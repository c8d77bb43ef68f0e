/// A run as the archive holds it, on its way to another store.
package struct StoredRun: Sendable {
    /// A segment: what ``SegmentCodec/decode(_:eventsMax:rawBytesMax:)`` reads. The compressed parts are just those of the archive.
    package var bytes: [UInt8]
    package var firstPosition: Position
    package var eventCount: Int
    /// In the order of their first events.
    package var slices: [(log: LogID, firstSeq: Seq, count: Int)]
}

extension EventStore {
    /// The archived run in which a position lies; `nil` if the archive does not reach it (yet).
    package func storedRun(containing position: Position) throws -> StoredRun? {
        try checkOpen()
        let decompressor = ZstdDecompressor()
        return try archive.environment.read { [archive] transaction in
            guard let (key, value) = try transaction.floor(archive.runs, Archive.key(position: position)), key.count == 8 else { return nil }
            let first = UInt64(bigEndian: key.loadUnaligned(as: UInt64.self))
            do {
                let (events, slices) = try DecodedRun.directory(value, at: first, decompressor: decompressor)
                guard position >= first, position - first < Position(events) else { return nil }
                var bytes = Array(value)
                try DecodedRun.move(&bytes, from: first, to: SegmentCodec.position)
                return StoredRun(bytes: bytes, firstPosition: first, eventCount: events, slices: slices)
            } catch let error as RunError {
                throw Archive.damaged(archive.path, "\(error)")
            }
        }
    }
}
