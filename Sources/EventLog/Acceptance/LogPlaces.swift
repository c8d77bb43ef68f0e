/// Where a log's archived events lie, and the tree over them: what reading, and telling of heads, needs of its row. Most of a row is of who takes part and
/// who has sent what, and is passed over.
struct LogPlaces {
    let id: LogID
    /// The store's own number of the log.
    var number: UInt64
    var slices: [LogRow.Slice]
    /// The Merkle tree over the archived events.
    var tree: CompactRange

    /// Of a log of which nothing is archived.
    init(of id: LogID) { (self.id, number, slices, tree) = (id, 0, [], CompactRange()) }

    var archivedSeq: Seq { slices.last.map { $0.firstSeq + Seq($0.count) - 1 } ?? 0 }

    /// Reads what `LogRow.encode` wrote.
    init(of id: LogID, decoding bytes: UnsafeRawBufferPointer) throws(CodecError) {
        var reader = ByteReader(bytes)
        self.id = id
        if case .user = id { _ = try reader.lengthPrefixed() }
        number = try reader.varint()
        let seq = try reader.varint()
        _ = try reader.varint()
        guard max(number, seq) < LogRow.numbersMax else { throw CodecError(.badValue) }
        for _ in 0..<(try reader.count()) {
            _ = try reader.lengthPrefixed()
            for _ in 0..<(try reader.byte() & 63).nonzeroBitCount { _ = try reader.varint() }
        }
        for _ in 0..<(try reader.count()) {
            _ = try reader.identifier() as MessageID
            for _ in 0..<4 { _ = try reader.varint() }
        }
        (slices, tree) = try LogRow.places(&reader, seq)
    }
}

extension Archive {
    /// The same for a log of the archive; `nil`: it has no events there.
    func places(_ log: LogID, _ transaction: borrowing ReadTransaction) throws -> LogPlaces? {
        try value(of: log, transaction) { _, value in
            do { return try LogPlaces(of: log, decoding: value) } catch is CodecError { throw Self.damaged(path, "a log's row cannot be read") }
        }
    }
}
