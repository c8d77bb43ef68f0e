internal import Synchronization

extension EventStore {
    /// The heads of all logs that have events, as of what is durable.
    public func forEachHead(_ body: (Head) throws -> Bool) throws {
        try forEachRow(withTrees: true) { row in
            try body(Head(log: row.id, size: row.tree.size, root: row.tree.root()))
        }
    }

    /// The head of one log; `nil` if it has no events.
    public func head(of log: LogID) throws -> Head? {
        var tree = CompactRange()
        if let places = try archive.environment.read({ [archive] in try archive.places(log, $0) }) { tree = places.tree }
        try forEachLeaf(of: log, from: tree.size + 1) { leaf, _ in tree.append(leaf) }
        return tree.size == 0 ? nil : Head(log: log, size: tree.size, root: tree.root())
    }

    /// The number and salts of a log that this store knows.
    func seeds(of log: LogID) throws -> PuncturedSeeds {
        guard let number = try writer.withLock({ try $0.number(of: log) }) else {
            throw EventLogError(.noSuchLog, "\(path): there is no log \(log)")
        }
        return try seeds(of: LogRow(id: log, number: number))
    }

    /// What a log's seeds are, to be given to a copy (`export --exact`): 32 bytes, or the set that is left after an erasure.
    public func secret(of log: LogID) throws -> [UInt8] {
        try seeds(of: log).secret
    }

    /// Lends the head and the secret of each log, as far as they can be read; `nil`: its secret is lost. Returns whether all logs' rows could be.
    package func forEachReadableHead(_ body: (Head, _ secret: [UInt8]?) throws -> Void) throws -> Bool {
        var isWhole = true
        var logs: [LogID] = []
        try forEachRow(withTrees: false, unreadable: { _, _ in isWhole = false }) { row, _ in
            logs.append(row.id)
            return true
        }
        func readable<R>(_ read: () throws -> R?) throws -> R? {
            do { return try read() } catch let error as EventLogError where error.code == .damaged { return nil }
        }
        for log in logs {
            // Where the journal holds its end, the head takes the secret too.
            guard let head = try readable({ try head(of: log) }) else {
                isWhole = false
                continue
            }
            try body(head, readable { try secret(of: log) })
        }
        return isWhole
    }

    /// Whether each log came with its secret from elsewhere, as all of a replica's do; a log that began here has a leaf of this store's own seeds.
    package var holdsOnlyAdoptedLogs: Bool {
        get throws {
            let ring = keys.withLock { $0.ring }
            var isOnly = true
            try forEachRow { row in
                isOnly = ring.explicit[row.number] != nil
                return isOnly
            }
            return isOnly
        }
    }

    /// Whether some archived log has no secret from elsewhere: where all came with one, it was lost, and would be derived from this store's own seeds.
    package var lacksAdoptedSecrets: Bool {
        get throws {
            let logs = try archive.environment.read { [archive] in try archive.state($0).nextNumber }
            return keys.withLock { UInt64($0.ring.explicit.count) < logs }
        }
    }

    /// The leaf hashes of a log's events, with their canonical parts, ascending.
    private func forEachLeaf(of log: LogID, from first: Seq, _ body: (Hash256, LeafParts) throws -> Void) throws {
        var cursor: SeedTree.Cursor?
        try forEachCanonical(of: log, from: first) { seq, envelope, bytes, erased in
            if cursor == nil { cursor = try seeds(of: log).cursor() }
            let salt = cursor!.leaf(at: seq - 1)
            guard let commitment = erased ?? salt.map({ Merkle.bodyCommitment(salt: $0, body: bytes) }) else {
                throw Archive.damaged(path, "the salt of log \(log) seq \(seq) is missing")
            }
            let parts = LeafParts(
                seq: seq, envelope: { Array(envelope) }, body: { Array(bytes) }, salt: erased == nil ? salt : nil, commitment: commitment)
            try body(Merkle.eventLeaf(envelope: envelope, commitment: commitment), parts)
        }
    }

    /// Lends the canonical bytes of a log's visible events, ascending: envelope and body, or the commitment to a body that was erased.
    func forEachCanonical(
        of log: LogID, from first: Seq, through last: Seq = .max,
        _ body: (Seq, _ envelope: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer, _ erased: Hash256?) throws -> Void
    ) throws {
        var envelope = ByteBuffer()
        var bytes = ByteBuffer()
        try forEachVisible(of: log, from: first, through: last) { run, place in
            envelope.removeAll()
            bytes.removeAll()
            run.envelope(at: place).encode(into: &envelope)
            let erased = run.commitments[place]
            if erased == nil { try run.body(at: place).encode(into: &bytes) }
            try body(run.events[place].seq, envelope.bytes, bytes.bytes, erased)
            return true
        } inTail: { seq, frame, index in
            try withExtendedLifetime(frame) { try body(seq, frame.envelopeBytes(index), frame.bodyBytes(index), frame.commitment(index)) }
            return true
        }
    }

    private struct LeafParts {
        var seq: Seq
        var envelope: () -> [UInt8]
        var body: () -> [UInt8]
        var salt: Hash256?
        var commitment: Hash256
    }

    // Proofs. Each hashes the log's events, and the entries of the log of heads: progress is told every thousand or so.

    /// Told how many hashes of how many are done.
    public typealias AuditProgress = (_ done: UInt64, _ total: UInt64) -> Void

    private static let hashesATold: UInt64 = 1024

    /// Proves that an event stands in its log, and, where the last checkpoint covers the log as it is, that the store signed it.
    public func proveInclusion(log: LogID, seq: Seq, progress: AuditProgress? = nil) throws -> ProofFile {
        guard let head = try head(of: log), 1...head.size ~= seq else {
            throw EventLogError(.noSuchLog, "\(path): log \(log) has no seq \(seq)")
        }
        var prover = MerkleProver(inclusionOf: seq - 1, size: head.size)
        var envelope: [UInt8] = []
        var body = ProofFile.Inclusion.Body.hidden(commitment: Hash256())
        try forEachLeaf(of: log, from: 1) { leaf, parts in
            guard prover.count < head.size else { return }
            prover.append(leaf)
            if parts.seq % Self.hashesATold == 0 { progress?(parts.seq, head.size) }
            if parts.seq == seq {
                envelope = parts.envelope()
                body = parts.salt.map { .shown(parts.body(), salt: $0) } ?? .hidden(commitment: parts.commitment)
            }
        }
        guard prover.root == head.root else { throw Archive.damaged(path, "log \(log): its events do not give its head (I6)") }
        return .inclusion(
            ProofFile.Inclusion(
                seq: seq, envelope: envelope, body: body, head: head, proof: prover.proof, attestation: try attestation(of: head, progress)))
    }

    /// Proves that a log only grew between two sizes; `to` is the present size if it is `nil`.
    public func proveConsistency(log: LogID, from size1: UInt64, to size2: UInt64? = nil, progress: AuditProgress? = nil) throws -> ProofFile {
        guard let head = try head(of: log) else { throw EventLogError(.noSuchLog, "\(path): there is no log \(log)") }
        let end = size2 ?? head.size
        guard size1 <= end, end <= head.size else {
            throw EventLogError(.invalidArgument, "log \(log) has \(head.size) events: \(size1) to \(end) is no range of its sizes")
        }
        var prover = MerkleProver(consistencyFrom: size1, to: end)
        var first = CompactRange()
        try forEachLeaf(of: log, from: 1) { leaf, parts in
            if parts.seq <= size1 { first.append(leaf) }
            if parts.seq <= end { prover.append(leaf) }
            if parts.seq % Self.hashesATold == 0 { progress?(parts.seq, head.size) }
        }
        let second = Head(log: log, size: end, root: prover.root)
        guard end < head.size || second.root == head.root else { throw Archive.damaged(path, "log \(log): its events do not give its head (I6)") }
        return .consistency(
            ProofFile.Consistency(
                from: Head(log: log, size: size1, root: first.root()), to: second, proof: prover.proof, attestation: try attestation(of: second, progress)))
    }

    // Checkpoints.

    private func signingKey() throws -> SigningKey {
        try signer.withLock { signer in
            if let signer { return signer }
            let key = try SigningKey(name: "convstore/\(id)", seed: keys.withLock { $0.file.signingSeed })
            signer = key
            return key
        }
    }

    /// The public key that checks this store's checkpoints, in the form of C2SP's signed notes.
    public func verifierKey() throws -> String { try verifier.description }

    var verifier: VerifierKey { get throws { try signingKey().verifierKey } }

    /// Heads that are appended in one transaction.
    private static let headsASlice = 4096

    /// Appends the heads that changed to the store's log of heads, and signs it. Returns the signed note.
    ///
    /// In slices, so that memory does not grow with the number of logs: one that is cut off leaves heads that the next one signs.
    ///
    /// - Parameter progress: heads that were looked at.
    public func makeCheckpoint(progress: AuditProgress? = nil) throws -> String {
        guard journal != nil else { throw EventLogError(.readOnly, "\(path) is open for reading only; a checkpoint is written") }
        try flush()
        let key = try signingKey()
        let logs = UInt64(try archive.environment.read { [archive] in try $0.size(archive.logs).records })
        var heads: [Head] = []
        var seen: UInt64 = 0
        try forEachHead { head in
            seen += 1
            heads.append(head)
            if heads.count == Self.headsASlice {
                _ = try append(heads, signedBy: nil)
                heads.removeAll(keepingCapacity: true)
                progress?(seen, max(logs, seen))
            }
            return true
        }
        return try append(heads, signedBy: key)
    }

    /// Appends those of some heads that changed to the log of heads, in one transaction, and signs what it is then if there is a key.
    private func append(_ heads: [Head], signedBy key: SigningKey?) throws -> String {
        try maintain {
            try archive.environment.write { [archive] transaction in
                guard let bytes = try transaction.get(archive.meta, Archive.MetaKey.state) else {
                    throw Archive.damaged(archive.path, "its state is missing")
                }
                var state = try Archive.State(decoding: Archive.open(Archive.MetaKey.state, bytes, "the store's state"))
                var tree = CompactRange()
                if let bytes = try transaction.get(archive.meta, Archive.MetaKey.headsTree) {
                    guard let known = CompactRange(end: state.headsEntries, encoded: try Archive.open(Archive.MetaKey.headsTree, bytes, "the log of heads"))
                    else { throw Archive.damaged(archive.path, "the log of heads cannot be read") }
                    tree = known
                }
                for head in heads {
                    let name = Archive.key(log: head.log)
                    if let bytes = try transaction.get(archive.heads, name) {
                        var reader = ByteReader(try Archive.open(name, bytes, "a head"))
                        let (_, size) = (try reader.fixed64(), try reader.fixed64())
                        if size >= head.size { continue }
                    }
                    let index = state.headsEntries
                    state.headsEntries += 1
                    tree.append(head.leafHash)
                    let entry = Archive.key(position: index)
                    try transaction.put(archive.heads, entry, Archive.sealed(entry, head.encoded))
                    var pointer = ByteBuffer(capacity: 32)
                    pointer.put(fixed64: index)
                    pointer.put(fixed64: head.size)
                    try transaction.put(archive.heads, name, Archive.sealed(name, pointer.array()))
                }
                state.commit += 1
                try transaction.put(archive.meta, Archive.MetaKey.headsTree, Archive.sealed(Archive.MetaKey.headsTree, tree.encoded))
                try transaction.put(archive.meta, Archive.MetaKey.state, Archive.sealed(Archive.MetaKey.state, state.encode()))
                guard let key else { return "" }
                let note = try Checkpoint(origin: key.verifierKey.name, size: tree.size, root: tree.root()).signed(by: key).encoded
                try transaction.put(archive.meta, Archive.MetaKey.checkpoint, Archive.sealed(Archive.MetaKey.checkpoint, Array(note.utf8)))
                return note
            }
        }
    }

    /// The last signed checkpoint; `nil` if none was made.
    public func checkpoint() throws -> String? {
        try archive.environment.read { [archive] transaction in
            guard let bytes = try transaction.get(archive.meta, Archive.MetaKey.checkpoint) else { return nil }
            return String(decoding: try Archive.open(Archive.MetaKey.checkpoint, bytes, "the checkpoint"), as: UTF8.self)
        }
    }

    /// Proves that the last checkpoint's log of heads begins with that of an older one.
    public func proveCheckpoint(from older: String, progress: AuditProgress? = nil) throws -> ProofFile {
        let key = try signingKey().verifierKey
        let first = try Checkpoint.open(older, key: key)
        guard let note = try checkpoint() else { throw EventLogError(.noSuchLog, "\(path): no checkpoint was made yet") }
        let second = try Checkpoint.open(note, key: key)
        guard first.size <= second.size else { throw EventLogError(.invalidArgument, "the given checkpoint is newer than the store's last") }
        var prover = MerkleProver(consistencyFrom: first.size, to: second.size)
        try forEachHeadsEntry(through: second.size, progress) { _, leaf in prover.append(leaf) }
        guard prover.root == second.root else { throw Archive.damaged(archive.path, "the log of heads does not give the checkpoint's root (I6)") }
        return .checkpoints(ProofFile.Checkpoints(checkpoint1: older, checkpoint2: note, key: key, proof: prover.proof))
    }

    func forEachHeadsEntry(from first: UInt64 = 0, through size: UInt64, _ progress: AuditProgress? = nil, _ body: (UInt64, Hash256) throws -> Void) throws {
        try archive.environment.read { [archive] transaction in
            for index in first..<size {
                if index % Self.hashesATold == 0 { progress?(index, size) }
                let name = Archive.key(position: index)
                guard let bytes = try transaction.get(archive.heads, name) else {
                    throw Archive.damaged(archive.path, "entry \(index) of the log of heads is missing")
                }
                try body(index, Merkle.leafHash(Archive.open(name, bytes, "a head")))
            }
        }
    }

    /// What the last checkpoint says of a head; `nil` if it does not hold just this one.
    private func attestation(of head: Head, _ progress: AuditProgress?) throws -> ProofFile.Attestation? {
        guard let note = try checkpoint() else { return nil }
        let key = try signingKey().verifierKey
        let signed = try Checkpoint.open(note, key: key)
        let found = try archive.environment.read { [archive] transaction -> UInt64? in
            let name = Archive.key(log: head.log)
            guard let bytes = try transaction.get(archive.heads, name) else { return nil }
            var reader = ByteReader(try Archive.open(name, bytes, "a head"))
            let index = try reader.fixed64()
            return try reader.fixed64() == head.size ? index : nil
        }
        guard let found, found < signed.size else { return nil }
        var prover = MerkleProver(inclusionOf: found, size: signed.size)
        try forEachHeadsEntry(through: signed.size, progress) { _, leaf in prover.append(leaf) }
        guard prover.root == signed.root else { throw Archive.damaged(archive.path, "the log of heads does not give the checkpoint's root (I6)") }
        return ProofFile.Attestation(index: found, proof: prover.proof, checkpoint: note, key: key)
    }
}
