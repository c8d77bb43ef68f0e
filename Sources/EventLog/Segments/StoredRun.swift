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
    ///
    /// - Parameter place: the first position that its checksums are made for: a segment's, unless another store's copy is to be compared.
    package func storedRun(containing position: Position, movedTo place: Position = SegmentCodec.position) throws -> StoredRun? {
        try checkOpen()
        let decompressor = ZstdDecompressor()
        return try archive.environment.read { [archive] transaction in
            guard let (first, value) = try archive.run(containing: position, transaction) else { return nil }
            do {
                let (events, slices) = try DecodedRun.directory(value, at: first, decompressor: decompressor)
                guard position >= first, position - first < Position(events) else { return nil }
                var bytes = Array(value)
                MappedPages.release(value)
                try DecodedRun.move(&bytes, from: first, to: place)
                return StoredRun(bytes: bytes, firstPosition: first, eventCount: events, slices: slices)
            } catch let error as RunError {
                throw Archive.damaged(archive.path, "\(error)")
            }
        }
    }

    /// This store's copy of a run that is damaged in another store, with the checksums that it has there; `nil` if there is no such run here.
    package func storedRun(of damaged: DamagedRun) throws -> StoredRun? {
        guard let position = try runs(of: damaged.log, from: damaged.seq).first,
            let run = try storedRun(containing: position, movedTo: damaged.position), run.bytes.count == damaged.byteCount,
            run.slices.contains(where: { $0.log == damaged.log && $0.firstSeq == damaged.seq })
        else { return nil }
        return run
    }
}
