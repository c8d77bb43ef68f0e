/// Hashes one log's events into its tree, in order: about two hashes a salt, and no allocation an event.
struct LeafHasher: ~Copyable {
    private var cursor: SeedTree.Cursor
    private var envelope = ByteBuffer()
    private var body = ByteBuffer()

    init(_ seeds: PuncturedSeeds) { cursor = seeds.cursor() }

    /// The leaf of canonical bytes; `nil` if the salt was forgotten and the event is not known as erased.
    mutating func leaf(_ seq: Seq, _ envelope: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer, _ erased: Hash256?) -> Hash256? {
        guard let commitment = erased ?? cursor.leaf(at: seq - 1).map({ Merkle.bodyCommitment(salt: $0, body: body) }) else { return nil }
        return Merkle.eventLeaf(envelope: envelope, commitment: commitment)
    }

    mutating func leaf(_ event: RecordedEvent) -> Hash256? {
        envelope.removeAll()
        body.removeAll()
        Envelope(event).encode(into: &envelope)
        if event.commitment == nil { event.encodeBody(into: &body) }
        return leaf(event.seq, envelope.bytes, body.bytes, event.commitment)
    }
}
