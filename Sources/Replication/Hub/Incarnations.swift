internal import EventLog

/// The openings of a hub's store, each with a random number and the position at which it began.
///
/// A cursor names the opening in which it was given. A store that was restored from a backup knows fewer of them, or one that ended earlier, however
/// many events it has taken since: so it tells a cursor that it gave itself from one that its lost future gave.
final class Incarnations: Sendable {
    private let known: [(id: UInt64, from: Position)]

    private static let table = "incarnations"

    init(store: EventStore, beginning id: UInt64) throws {
        let side = try SideStore(directory: store.path, tables: SyncTables.names)
        var known: [(id: UInt64, from: Position)] = []
        try side.read { transaction in
            try transaction.forEach(Self.table, from: []) { _, value in
                guard value.count == 16 else { throw CodecError(.badValue) }
                known.append(
                    (value.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }, value.suffix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }))
                return true
            }
        }
        let position = store.lastPosition
        let number = UInt64(known.count)
        try side.write { transaction in
            var value = ByteBuffer(capacity: 16)
            value.put(fixed64: id)
            value.put(fixed64: position)
            try transaction.put(Self.table, withUnsafeBytes(of: number.bigEndian) { Array($0) }, value.array())
        }
        known.append((id, position))
        self.known = known
        side.close()
    }

    /// Whether a position was reached in an opening, as this store remembers it.
    func holds(_ position: Position, in id: UInt64, now last: Position) -> Bool {
        if PlantedBug.believeCursors.isPlanted { return true }
        guard let index = known.firstIndex(where: { $0.id == id }) else { return false }
        // Up to where the next one began: what an opening gave out, it had synced.
        let end = index + 1 < known.count ? known[index + 1].from : last
        return position <= end
    }
}
