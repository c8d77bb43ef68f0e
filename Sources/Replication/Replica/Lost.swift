internal import EventLog

/// Events that are kept aside, in the side store: what a hub had and lost, and what may be that.
enum Lost {
    static func read(_ side: SideStore, in table: SideStore.TableName = SyncTables.lost) throws -> [RecordedEvent] {
        try side.read { try read($0, in: table) }
    }

    static func read(_ transaction: borrowing SideStore.Reading, in table: SideStore.TableName = SyncTables.lost) throws -> [RecordedEvent] {
        var events: [RecordedEvent] = []
        try forEach(transaction, in: table) { events.append($0) }
        return events
    }

    static func forEach(_ transaction: borrowing SideStore.Reading, in table: SideStore.TableName, _ body: (RecordedEvent) -> Void) throws {
        try transaction.forEach(table, from: []) { _, value in
            body(try value.withUnsafeBytes { try RecordedEvent(kept: $0) })
            return true
        }
    }

    static func isEmpty(_ side: SideStore, in table: SideStore.TableName) throws -> Bool {
        var isEmpty = true
        try side.read { transaction in
            try transaction.forEach(table, from: []) { _, _ in
                isEmpty = false
                return false
            }
        }
        return isEmpty
    }

    static func put(_ events: [RecordedEvent], in table: SideStore.TableName = SyncTables.lost, _ transaction: inout SideStore.Writing) throws {
        for event in events { try transaction.put(table, key(event), event.kept) }
    }

    static func delete(_ events: [RecordedEvent], in table: SideStore.TableName, _ transaction: inout SideStore.Writing) throws {
        for event in events { try transaction.delete(table, key(event)) }
    }

    /// A hub that is set back twice loses two events of one seq: the clock tells them apart.
    static func key(_ event: RecordedEvent) -> [UInt8] {
        event.log.key + withUnsafeBytes(of: event.seq.bigEndian) { Array($0) } + withUnsafeBytes(of: event.hlc.rawValue.bigEndian) { Array($0) }
    }
}
