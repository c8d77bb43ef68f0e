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
    private var encoder = RunEncoder(shape: RunShape())
    private var memory: Memory?
    /// The archive's count of commits after the last flush: beyond it, others have changed what `memory` knows.
    private var commit: UInt64?
    /// The run at hand; kept between slices, as fresh memory of this size is fetched from the system page by page.
    private var pending: ContiguousArray<PendingEvent> = []
    private var sealed = ByteBuffer(capacity: 1 << 20)
    private var rows = ByteBuffer(capacity: 1 << 16)

    init(store: EventStore) { self.store = store }

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

    private func row(_ log: LogID, _ nextNumber: inout UInt64) throws -> LogRow {
        if let found = try store.archive.environment.read({ [archive = store.archive] in try archive.row(log, $0) }) { return found }
        defer { nextNumber += 1 }
        return LogRow(id: log, number: nextNumber)
    }

    private func flush(_ frames: [TailFrame], _ cut: FoldCut?, _ ring: KeyRing, _ memory: inout Memory) throws {
        let archive = store.archive
        var state = try archive.environment.read { try archive.state($0) }
        // A commit that failed has turned up: sealing its events again would give each of them twice.
        guard frames[0].number > state.frame else {
            throw EventStore.poisoned(store.path, EventLogError(.inputOutput, "the archive has taken in what it said it had not"))
        }
        if state.commit != commit { memory = Memory(ring) }
        var touched: [Int] = []
        var secrets: [(place: Int, log: LogID, wrapped: [UInt8])] = []
        var nextNumber = state.nextNumber
        func touch(_ log: LogID, _ memory: inout Memory) throws -> Int {
            let place: Int
            if let known = memory.places[log] {
                place = known
            } else {
                place = memory.logs.count
                memory.logs.append(Log(try row(log, &nextNumber)))
                memory.places[log] = place
            }
            if !memory.logs[place].isTouched {
                memory.logs[place].isTouched = true
                memory.logs[place].lastUse = memory.flush
                touched.append(place)
            }
            return place
        }

        // Fold, in commit order, and seal what makes a run at once, while it is in the processor's caches.
        let shape = RunShape()
        let firstPosition = state.position + 1
        var sealedCount = 0
        var runs: [(position: Position, range: Range<Int>)] = []
        var runBytes = 0
        sealed.removeAll()
        var pending: ContiguousArray<PendingEvent> = []
        swap(&pending, &self.pending)
        pending.reserveCapacity(min(shape.eventsMax, frames.reduce(0) { $0 + $1.items.count }))
        // The events refer to the frames' bytes.
        defer {
            pending.removeAll(keepingCapacity: true)
            swap(&pending, &self.pending)
            withExtendedLifetime(frames) {}
        }
        func seal(_ memory: inout Memory) throws {
            let position = firstPosition + Position(sealedCount)
            let offset = sealed.count
            let slices = try pending.withUnsafeBufferPointer { try encoder.encode($0, at: position, into: &sealed) }
            for (number, slice) in slices.enumerated() {
                memory.logs[slice.logNumber].row.slices.append(
                    LogRow.Slice(run: position, index: number, firstSeq: slice.firstSeq, count: slice.count, messages: slice.messages))
            }
            runs.append((position, offset..<sealed.count))
            state.runs += 1
            state.compressedBytes += UInt64(sealed.count - offset)
            sealedCount += pending.count
            pending.removeAll(keepingCapacity: true)
            runBytes = 0
        }
        var place = -1
        var lastLog: LogID?
        for frame in frames {
            var others = frame.others[...]
            for index in 0...frame.items.count {
                while let other = others.first, other.before == index {
                    others.removeFirst()
                    if other.kind == TailFrame.Record.refusal {
                        let mark = try MarkRecord(decoding: frame.other(other.range))
                        memory.logs[try touch(mark.log, &memory)].row.take(mark)
                    } else if other.kind == TailFrame.Record.secret {
                        let secret = try SecretRecord(decoding: frame.other(other.range))
                        secrets.append((try touch(secret.log, &memory), secret.log, secret.wrapped))
                    }
                }
                guard index < frame.items.count else { break }
                var author = 0
                let envelope = try Envelope(canonical: frame.envelopeBytes(index)) { name throws(CodecError) in
                    author = try memory.users.number(of: name)
                    return memory.users[author]
                }
                let bodyBytes = frame.bodyBytes(index)
                let body = BodyParts(body: bodyBytes)
                if envelope.log != lastLog {
                    place = try touch(envelope.log, &memory)
                    lastLog = envelope.log
                }
                if memory.logs[place].cursor == nil {
                    let number = memory.logs[place].row.number
                    let seeds = ring.explicit[number] ?? (ring.isExplicitOnly ? nil : memory.master.leaf(at: number).map { PuncturedSeeds(root: $0) })
                    memory.logs[place].cursor = seeds?.cursor()
                }
                let erased = frame.commitment(index)
                let commitment: Hash256
                if let erased {
                    commitment = erased
                } else if let salt = memory.logs[place].cursor?.leaf(at: envelope.seq - 1) {
                    commitment = Merkle.bodyCommitment(salt: salt, body: bodyBytes)
                } else {
                    throw Archive.damaged(archive.path, "the secret of log \(envelope.log) is missing")
                }
                let leaf = Merkle.eventLeaf(envelope: frame.envelopeBytes(index), commitment: commitment)
                let effect = try Effect(envelope: envelope, body: body)
                memory.logs[place].row.apply(effect)
                memory.logs[place].row.tree.append(leaf)
                state.rawBytes += UInt64(frame.items[index].envelope.count + frame.items[index].body.count)
                state.hlc = max(state.hlc, envelope.hlc.rawValue)
                if envelope.seq == 1, case .conversation = envelope.log { state.conversations += 1 }
                if envelope.kind == Event.Kind.messageSent.rawValue { state.messages += 1 }
                pending.append(PendingEvent(envelope: envelope, body: body, commitment: erased, logNumber: place, authorNumber: author))
                runBytes += body.text.count + body.rest.count + 24
                if runBytes >= shape.rawBytesMax || pending.count == shape.eventsMax { try seal(&memory) }
            }
        }
        if !pending.isEmpty { try seal(&memory) }

        state.position += Position(sealedCount)
        state.frame = frames.last!.number
        state.nextNumber = nextNumber
        state.commit += 1

        // Write, in key order.
        touched.sort { memory.logs[$0].order < memory.logs[$1].order }
        var numbers = store.replicaNumbers.withLock { $0 }
        var newReplicas: [(UInt64, ReplicaID)] = []
        func number(_ replica: ReplicaID) -> UInt64 {
            if let known = numbers[replica] { return known }
            let number = UInt64(numbers.count)
            numbers[replica] = number
            newReplicas.append((number, replica))
            return number
        }
        rows.removeAll()
        var ends: [Int] = []
        ends.reserveCapacity(touched.count)
        var seqs: [(log: LogID, seq: Seq)] = []
        seqs.reserveCapacity(touched.count)
        for place in touched {
            let start = rows.count
            memory.logs[place].row.encode(into: &rows)
            memory.logs[place].row.encodeLanes(into: &rows, number: number)
            Archive.seal(memory.logs[place].key, from: start, in: &rows)
            ends.append(rows.count)
            seqs.append((memory.logs[place].row.id, memory.logs[place].row.seq))
            memory.logs[place].isTouched = false
        }
        let key = store.keys.withLock { $0.file.current.secret }
        let batches = try FoldBatch.encode(cut?.rows ?? [], position: state.position)
        try archive.environment.write { transaction in
            for run in runs {
                let bytes = UnsafeRawBufferPointer(rebasing: sealed.bytes[run.range])
                try transaction.put(archive.runs, Archive.key(position: run.position), bytes, isAppend: true)
            }
            var start = 0
            for (place, end) in zip(touched, ends) {
                try transaction.put(archive.logs, memory.logs[place].key, UnsafeRawBufferPointer(rebasing: rows.bytes[start..<end]))
                start = end
            }
            for (number, replica) in newReplicas {
                let key = Archive.key(position: number)
                try transaction.put(archive.replicas, key, Archive.sealed(key, replica.bytes))
            }
            for secret in secrets {
                let number = memory.logs[secret.place].row.number
                let raw = try secret.wrapped.withUnsafeBytes { try Wrapping.unwrap($0, key: key, for: "log \(secret.log)") }
                let name = Archive.key(position: number)
                try transaction.put(archive.secrets, name, Archive.sealed(name, try Wrapping.wrap(raw, key: key, for: "log \(number)")))
            }
            for batch in batches { try batch.write(archive, &transaction) }
            try transaction.put(archive.meta, Archive.MetaKey.state, Archive.sealed(Archive.MetaKey.state, state.encode()))
        }
        commit = state.commit
        if let cut { store.settle(cut) }
        store.replicaNumbers.withLock { $0 = numbers }
        // In this order: whoever looks at the tail and then at the archive misses nothing.
        store.writer.withLock { $0.archived(seqs, through: state.position, memoryBytesMax: store.options.cacheBytes) }
        store.tail.drop(throughFrame: frames.last!.number, archived: state.position)
        store.journal?.recycle(throughFrame: state.frame)
        store.noteSlice()
        archive.environment.releasePages()
    }
}
