internal import Synchronization

/// Seals the journal's events into runs. Lives on the flush's thread.
final class Flusher {
    /// A log that recent flushes touched. These lie in one array and are changed in place: a second reference to a row would copy it.
    private struct Log {
        var row: LogRow
        var cursor: SeedTree.Cursor?
        /// Whether the flush at hand changes it.
        var isTouched = false
        /// The number of the last flush that changed it.
        var lastUse = 0
        let key: [UInt8]
        let order: (UInt8, UInt64, UInt64)

        init(_ row: LogRow) {
            let key = Archive.key(log: row.id)
            func word(_ start: Int) -> UInt64 { key[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) } }
            self.row = row
            self.key = key
            order = (key[0], word(1), word(9))
        }
    }

    /// What is known between flushes; so much of it that it does not matter, or what the last flush used.
    private struct Memory: ~Copyable {
        var logs: ContiguousArray<Log> = []
        var places: [LogID: Int] = [:]
        var users = UserTable()
        /// The seeds of logs that are made one after the other.
        var master: SeedTree.Cursor
        var ring: KeyRing.Version
        /// The number of the flush at hand.
        var flush = 0

        init(_ ring: KeyRing) {
            master = ring.master.cursor()
            self.ring = ring.version
        }

        /// Forgets logs that the last flush did not touch, if there are many: an import passes by each conversation once.
        mutating func trim() {
            if users.count > Flusher.usersMax { users = UserTable() }
            guard logs.count > Flusher.logsMax else { return }
            logs = logs.filter { $0.lastUse == flush }
            places = [:]
            for place in logs.indices { places[logs[place].row.id] = place }
        }
    }

    private static let logsMax = 2048, usersMax = 65_536
    private unowned let store: EventStore
    private let shape: RunShape
    private var encoder: RunEncoder
    private var memory: Memory?
    /// The archive's count of commits after the last flush: beyond it, others have changed what `memory` knows.
    private var commit: UInt64?
    /// The memory of a slice's run at hand: fresh memory of this size is fetched from the system page by page.
    private var pending: ContiguousArray<PendingEvent> = []
    private var sealed = ByteBuffer(capacity: 1 << 20)
    private var rows = ByteBuffer(capacity: 1 << 16)

    init(store: EventStore) {
        self.store = store
        shape = RunShape()
        encoder = RunEncoder(shape: shape)
    }

    /// One slice of the journal a transaction, so that no commit of the archive is long.
    func flush() throws {
        // A store of full durability shows nothing in its tail that is not synced.
        if store.options.durability != .full, let journal = store.journal { store.show(through: try journal.sync()) }
        // What comes meanwhile is for the next flush: little at a time would make small runs.
        let target = store.tail.snapshot.frames.last?.number ?? 0
        defer { pending = [] }
        while true {
            // What is folded is cut where a frame ends, and written with just the events up to there.
            let cut = store.folds.isEmpty ? nil : store.nextCut()
            if cut != nil, store.options.durability != .full, let journal = store.journal { store.show(through: try journal.sync()) }
            let snapshot = store.tail.snapshot
            var frames: [TailFrame] = []
            var bytes = 0
            // By number, not by position: a frame of refusals only has no position of its own.
            let durable = store.journal?.syncedFrame ?? 0
            for frame in snapshot.frames where frame.number <= min(durable, cut?.frame ?? .max) {
                if cut == nil, bytes > 0, bytes + frame.bytes.count > 8 << 20 { break }
                frames.append(frame)
                bytes += frame.bytes.count
            }
            guard let first = frames.first, first.number <= target else { return }
            try store.maintain {
                // A rebuild may have put other rows in its place meanwhile.
                let cut = cut.flatMap { store.cut(ofFrame: $0.frame) }
                let ring = store.keys.withLock { $0.ring }
                // A failure leaves it empty: what was folded is not in the archive.
                var memory = self.memory.take() ?? Memory(ring)
                if memory.ring !== ring.version { memory = Memory(ring) }
                memory.trim()
                memory.flush += 1
                try flush(frames, cut, ring, &memory)
                self.memory = consume memory
            }
        }
    }

    /// What one slice of the journal makes of the archive.
    private struct Slice {
        /// As it will be behind it.
        var state: Archive.State
        let firstPosition: Position
        /// The run at hand. The events refer to the frames' bytes.
        var pending: ContiguousArray<PendingEvent>
        var runBytes = 0
        var runs: [(position: Position, range: Range<Int>)] = []
        var sealedCount = 0
        /// The logs' places in the memory.
        var touched: [Int] = []
        var secrets: [(place: Int, log: LogID, wrapped: [UInt8])] = []
        /// The last event's log, and its place.
        var last: (log: LogID, place: Int)?

        init(_ state: Archive.State, pending: consuming ContiguousArray<PendingEvent>) {
            self.state = state
            firstPosition = state.position + 1
            self.pending = pending
        }
    }

    private func flush(_ frames: [TailFrame], _ cut: FoldCut?, _ ring: KeyRing, _ memory: inout Memory) throws {
        let state = try store.archive.environment.read { [archive = store.archive] in try archive.state($0) }
        // A commit that failed has turned up: sealing its events again would give each of them twice.
        guard frames[0].number > state.frame else {
            throw EventStore.poisoned(store.path, EventLogError(.inputOutput, "the archive has taken in what it said it had not"))
        }
        if state.commit != commit { memory = Memory(ring) }
        sealed.removeAll()
        var slice = Slice(state, pending: pending)
        pending = []
        slice.pending.reserveCapacity(min(shape.eventsMax, frames.reduce(0) { $0 + $1.items.count }))
        defer {
            slice.pending.removeAll(keepingCapacity: true)
            pending = slice.pending
            withExtendedLifetime(frames) {}
        }
        // In commit order; what makes a run is sealed at once, while it is in the processor's caches.
        for frame in frames { try fold(frame, ring, &slice, &memory) }
        if !slice.pending.isEmpty { try seal(&slice, &memory) }
        slice.state.position += Position(slice.sealedCount)
        slice.state.frame = frames.last!.number
        slice.state.commit += 1
        let rows = encodeRows(&slice, &memory)
        try write(slice, rows, cut, memory)
        settle(slice, rows, cut)
    }

    // Folding.

    private func fold(_ frame: TailFrame, _ ring: KeyRing, _ slice: inout Slice, _ memory: inout Memory) throws {
        var others = frame.others[...]
        for index in 0...frame.items.count {
            while let other = others.first, other.before == index {
                others.removeFirst()
                try takeRecord(other.kind, other.range, of: frame, &slice, &memory)
            }
            if index < frame.items.count { try fold(index, of: frame, ring, &slice, &memory) }
        }
    }

    private func takeRecord(_ kind: UInt8, _ range: Range<Int>, of frame: TailFrame, _ slice: inout Slice, _ memory: inout Memory) throws {
        if kind == TailFrame.Record.refusal {
            let mark = try MarkRecord(decoding: frame.other(range))
            let place = try touch(mark.log, &slice, &memory)
            memory.logs[place].row.take(mark)
        } else if kind == TailFrame.Record.secret {
            let secret = try SecretRecord(decoding: frame.other(range))
            slice.secrets.append((try touch(secret.log, &slice, &memory), secret.log, secret.wrapped))
        }
    }

    @inline(__always)
    private func fold(_ index: Int, of frame: TailFrame, _ ring: KeyRing, _ slice: inout Slice, _ memory: inout Memory) throws {
        var author = 0
        let envelope = try Envelope(canonical: frame.envelopeBytes(index)) { name throws(CodecError) in
            author = try memory.users.number(of: name)
            return memory.users[author]
        }
        let bodyBytes = frame.bodyBytes(index)
        let body = BodyParts(body: bodyBytes)
        let place: Int
        if let last = slice.last, last.log == envelope.log {
            place = last.place
        } else {
            place = try touch(envelope.log, &slice, &memory)
            slice.last = (envelope.log, place)
        }
        let erased = frame.commitment(index)
        let commitment = try erased ?? Merkle.bodyCommitment(salt: salt(of: envelope, place, ring, &memory), body: bodyBytes)
        memory.logs[place].row.apply(try Effect(envelope: envelope, body: body))
        memory.logs[place].row.tree.append(Merkle.eventLeaf(envelope: frame.envelopeBytes(index), commitment: commitment))
        slice.state.rawBytes += UInt64(frame.items[index].envelope.count + frame.items[index].body.count)
        slice.state.hlc = max(slice.state.hlc, envelope.hlc.rawValue)
        if envelope.seq == 1, case .conversation = envelope.log { slice.state.conversations += 1 }
        if envelope.kind == Event.Kind.messageSent.rawValue { slice.state.messages += 1 }
        slice.pending.append(PendingEvent(envelope: envelope, body: body, commitment: erased, logNumber: place, authorNumber: author))
        slice.runBytes += body.text.count + body.rest.count + 24
        if slice.runBytes >= shape.rawBytesMax || slice.pending.count == shape.eventsMax { try seal(&slice, &memory) }
    }

    @inline(__always)
    private func salt(of envelope: borrowing Envelope, _ place: Int, _ ring: KeyRing, _ memory: inout Memory) throws -> Hash256 {
        if memory.logs[place].cursor == nil {
            let number = memory.logs[place].row.number
            let seeds = ring.explicit[number] ?? (ring.isExplicitOnly ? nil : memory.master.leaf(at: number).map { PuncturedSeeds(root: $0) })
            memory.logs[place].cursor = seeds?.cursor()
        }
        guard let salt = memory.logs[place].cursor?.leaf(at: envelope.seq - 1) else {
            throw Archive.damaged(store.archive.path, "the secret of log \(envelope.log) is missing")
        }
        return salt
    }

    /// The place of a log's row in the memory; it will be written.
    private func touch(_ log: LogID, _ slice: inout Slice, _ memory: inout Memory) throws -> Int {
        let place: Int
        if let known = memory.places[log] {
            place = known
        } else {
            place = memory.logs.count
            memory.logs.append(Log(try row(log, &slice.state.nextNumber)))
            memory.places[log] = place
        }
        if !memory.logs[place].isTouched {
            memory.logs[place].isTouched = true
            memory.logs[place].lastUse = memory.flush
            slice.touched.append(place)
        }
        return place
    }

    private func row(_ log: LogID, _ nextNumber: inout UInt64) throws -> LogRow {
        if let found = try store.archive.environment.read({ [archive = store.archive] in try archive.row(log, $0) }) { return found }
        defer { nextNumber += 1 }
        return LogRow(id: log, number: nextNumber)
    }

    /// Makes a run of what is pending.
    private func seal(_ slice: inout Slice, _ memory: inout Memory) throws {
        let position = slice.firstPosition + Position(slice.sealedCount)
        let offset = sealed.count
        let parts = try slice.pending.withUnsafeBufferPointer { try encoder.encode($0, at: position, into: &sealed) }
        for (number, part) in parts.enumerated() {
            memory.logs[part.logNumber].row.slices.append(
                LogRow.Slice(run: position, index: number, firstSeq: part.firstSeq, count: part.count, messages: part.messages))
        }
        slice.runs.append((position, offset..<sealed.count))
        slice.state.runs += 1
        slice.state.compressedBytes += UInt64(sealed.count - offset)
        slice.sealedCount += slice.pending.count
        slice.pending.removeAll(keepingCapacity: true)
        slice.runBytes = 0
    }

    // Writing.

    /// What `rows` holds, and what it names.
    private struct EncodedRows {
        /// Where each touched log's row ends.
        var ends: [Int] = []
        var seqs: [(log: LogID, seq: Seq)] = []
        var numbers: [ReplicaID: UInt64]
        var newReplicas: [(number: UInt64, replica: ReplicaID)] = []
    }

    /// In key order.
    private func encodeRows(_ slice: inout Slice, _ memory: inout Memory) -> EncodedRows {
        slice.touched.sort { memory.logs[$0].order < memory.logs[$1].order }
        var encoded = EncodedRows(numbers: store.replicaNumbers.withLock { $0 })
        encoded.ends.reserveCapacity(slice.touched.count)
        encoded.seqs.reserveCapacity(slice.touched.count)
        func number(_ replica: ReplicaID) -> UInt64 {
            if let known = encoded.numbers[replica] { return known }
            let number = UInt64(encoded.numbers.count)
            encoded.numbers[replica] = number
            encoded.newReplicas.append((number, replica))
            return number
        }
        rows.removeAll()
        for place in slice.touched {
            let start = rows.count
            memory.logs[place].row.encode(into: &rows)
            memory.logs[place].row.encodeLanes(into: &rows, number: number)
            Archive.seal(memory.logs[place].key, from: start, in: &rows)
            encoded.ends.append(rows.count)
            encoded.seqs.append((memory.logs[place].row.id, memory.logs[place].row.seq))
            memory.logs[place].isTouched = false
        }
        return encoded
    }

    private func write(_ slice: Slice, _ encoded: EncodedRows, _ cut: FoldCut?, _ memory: borrowing Memory) throws {
        let archive = store.archive
        let key = store.keys.withLock { $0.file.current.secret }
        let batches = try FoldBatch.encode(cut?.rows ?? [], position: slice.state.position)
        try archive.environment.write { transaction in
            for run in slice.runs {
                let bytes = UnsafeRawBufferPointer(rebasing: sealed.bytes[run.range])
                try transaction.put(archive.runs, Archive.key(position: run.position), bytes, isAppend: true)
            }
            var start = 0
            for (place, end) in zip(slice.touched, encoded.ends) {
                try transaction.put(archive.logs, memory.logs[place].key, UnsafeRawBufferPointer(rebasing: rows.bytes[start..<end]))
                start = end
            }
            for (number, replica) in encoded.newReplicas {
                let key = Archive.key(position: number)
                try transaction.put(archive.replicas, key, Archive.sealed(key, replica.bytes))
            }
            for secret in slice.secrets {
                let number = memory.logs[secret.place].row.number
                let raw = try secret.wrapped.withUnsafeBytes { try Wrapping.unwrap($0, key: key, for: "log \(secret.log)") }
                let name = Archive.key(position: number)
                try transaction.put(archive.secrets, name, Archive.sealed(name, try Wrapping.wrap(raw, key: key, for: "log \(number)")))
            }
            for batch in batches { try batch.write(archive, &transaction) }
            try transaction.put(archive.meta, Archive.MetaKey.state, Archive.sealed(Archive.MetaKey.state, slice.state.encode()))
        }
        store.addParity(slice.runs.map { ($0.position, UnsafeRawBufferPointer(rebasing: sealed.bytes[$0.range])) }, isSynced: true)
    }

    /// It is archived.
    private func settle(_ slice: Slice, _ encoded: EncodedRows, _ cut: FoldCut?) {
        commit = slice.state.commit
        if let cut { store.settle(cut) }
        store.replicaNumbers.withLock { $0 = encoded.numbers }
        // In this order: whoever looks at the tail and then at the archive misses nothing.
        store.writer.withLock { $0.archived(encoded.seqs, through: slice.state.position, memoryBytesMax: store.options.cacheBytes) }
        store.tail.drop(throughFrame: slice.state.frame, archived: slice.state.position)
        store.journal?.recycle(throughFrame: slice.state.frame)
        store.noteSlice()
        store.archive.environment.releasePages()
    }
}
