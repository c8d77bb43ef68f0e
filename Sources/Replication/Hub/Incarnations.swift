internal import EventLog

/// The openings of a hub's store, each with a random number and the position at which it began.
///
/// A cursor names the opening in which it was given. A store that was restored from a backup knows fewer of them, or one that ended earlier, however
/// many events it has taken since: so it tells a cursor that it gave itself from one that its lost future gave.
final class Incarnations: Sendable {
    private let known: [(id: UInt64, from: Position)]

    private static let table = "incarnations"

    /// - Parameter log: is told if the side store was damaged, and what of it could not be kept.
    init(store: EventStore, beginning id: UInt64, log: (String) -> Void) throws {
        var (side, known) = try Self.openSound(store, log)
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

    /// Ends the last opening in a copy of a hub's store: the hub went on with it, and gave out cursors behind the copy's end that would look like the copy's own
    /// as soon as something is written there.
    static func end(inCopyAt path: String, beginning id: UInt64) throws {
        guard let copied = try SyncTables.openIfPresent(path) else { return }
        var number: UInt64 = 0
        do {
            defer { copied.close() }
            try copied.read { transaction in
                try transaction.forEach(table, from: []) { _, _ in
                    number += 1
                    return true
                }
            }
        }
        // It was never served.
        if number == 0 { return }
        let side = try SideStore(directory: path, tables: SyncTables.names)
        defer { side.close() }
        let store = try EventStore.open(at: path, options: StoreOptions(access: .readOnly))
        defer { try? store.close() }
        var value = ByteBuffer(capacity: 16)
        value.put(fixed64: id)
        value.put(fixed64: store.lastPosition)
        try side.write { try $0.put(table, withUnsafeBytes(of: number.bigEndian) { Array($0) }, value.array()) }
    }

    /// The side store, made anew without the openings if it is damaged: to devices this is then a hub that was restored, and they compare what they hold.
    /// With only some of the openings, a cursor of one that is missing could be taken for another's.
    private static func openSound(_ store: EventStore, _ log: (String) -> Void) throws -> (SideStore, [(id: UInt64, from: Position)]) {
        do {
            return try open(store)
        } catch let error as EventLogError where error.code == .damaged {
            let salvaged = try SideStore.salvage(directory: store.path, tables: SyncTables.names)
            var records = Dictionary(uniqueKeysWithValues: salvaged.names.map { ($0, salvaged[$0].records) })
            records[table] = []
            let others = SyncTables.names.filter { $0 != table && !(records[$0] ?? []).isEmpty }
            try SideStore.replace(directory: store.path, tables: SyncTables.names, with: records)
            log("\(error.message)")
            log("\(SideStore.path(store.path)) is made anew without its openings: devices compare once what they hold")
            for loss in salvaged.losses(of: others) { log("lost: \(loss)") }
            return try open(store)
        }
    }

    private static func open(_ store: EventStore) throws -> (SideStore, [(id: UInt64, from: Position)]) {
        let side = try SideStore(directory: store.path, tables: SyncTables.names)
        var known: [(id: UInt64, from: Position)] = []
        do {
            try side.read { transaction in
                try transaction.forEach(table, from: []) { _, value in
                    guard value.count == 16 else { throw CodecError(.badValue) }
                    known.append(
                        (value.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }, value.suffix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }))
                    return true
                }
            }
        } catch {
            side.close()
            throw error
        }
        return (side, known)
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
