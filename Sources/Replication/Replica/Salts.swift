internal import EventLog

/// The salts of a log's bodies. A copy of the log's secret lacks those of bodies that were erased where it came from.
enum Salts {
    static func hasAll(of events: [RecordedEvent], _ seeds: PuncturedSeeds) -> Bool {
        seeds.isWhole || events.allSatisfy { $0.isErased || seeds.leaf(at: $0.seq - 1) != nil }
    }

    /// Events that were kept under one copy of the secret, under another: where that lacks the salt, the body goes, as it did at the hub.
    static func move(_ events: [RecordedEvent], from old: PuncturedSeeds, to new: PuncturedSeeds) throws -> [RecordedEvent] {
        if new.isWhole { return events }
        return try events.map { event in
            guard !event.isErased, new.leaf(at: event.seq - 1) == nil, let salt = old.leaf(at: event.seq - 1) else { return event }
            let (envelope, body) = EventCodec.encode(event)
            return try EventCodec.decode(envelope: envelope, commitment: body.withUnsafeBytes { Merkle.bodyCommitment(salt: salt, body: $0) })
        }
    }
}
