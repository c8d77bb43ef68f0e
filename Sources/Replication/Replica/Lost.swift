internal import EventLog

/// Events that a hub had and lost: kept aside, so that somebody can decide about them.
enum Lost {
    static func read(_ side: SideStore) throws -> [RecordedEvent] {
        var events: [RecordedEvent] = []
        try side.read { transaction in
            try transaction.forEach(SyncTables.lost, from: []) { _, value in
                events.append(try value.withUnsafeBytes { try RecordedEvent(kept: $0) })
                return true
            }
        }
        return events
    }

    static func put(_ events: [RecordedEvent], _ transaction: inout SideStore.Writing) throws {
        for event in events {
            // A hub that is set back twice loses two events of one seq: the clock tells them apart.
            let place = withUnsafeBytes(of: event.seq.bigEndian) { Array($0) } + withUnsafeBytes(of: event.hlc.rawValue.bigEndian) { Array($0) }
            try transaction.put(SyncTables.lost, event.log.key + place, event.kept)
        }
    }
}
