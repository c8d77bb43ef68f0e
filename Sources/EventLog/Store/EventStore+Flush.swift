internal import Synchronization

extension EventStore {
    func requestFlush() {
        flushing.withLock { state in
            state.isWanted = true
            flushing.wakeAll()
        }
    }

    /// Seals everything that is durable into the archive, and returns when it is there.
    public func flush() throws {
        try flushing.withLock { state in
            if state.hasEnded { return }
            let goal = state.flushed + (state.isRunning ? 2 : 1)
            state.failure = nil
            state.isWanted = true
            flushing.wakeAll()
            while state.flushed < goal, !state.hasEnded {
                if state.isRunning == false, state.isWanted == false { state.isWanted = true; flushing.wakeAll() }
                flushing.wait()
                if let failure = state.failure { throw failure }
            }
        }
    }

    /// The flush's thread.
    func flushLoop() {
        let flusher = Flusher(store: self)
        while true {
            let shouldEnd = flushing.withLock { state -> Bool in
                while !state.isWanted, !state.isClosing { flushing.wait() }
                if state.isClosing, !state.isWanted {
                    state.hasEnded = true
                    flushing.wakeAll()
                    return true
                }
                state.isWanted = false
                state.isRunning = true
                return false
            }
            if shouldEnd { return }
            var failure: EventLogError?
            do {
                try flusher.flush()
            } catch let error as EventLogError {
                failure = error
            } catch let error as LMDBError {
                failure = Archive.typed(error, archive.path)
            } catch let error as SystemError {
                failure = error.typed
            } catch {
                failure = EventLogError(.inputOutput, "\(archive.path): \(error)")
            }
            flushing.withLock { state in
                state.isRunning = false
                state.flushed += 1
                state.failure = failure
                flushing.wakeAll()
            }
        }
    }
}

/// Seals the journal's events into runs. Lives on the flush's thread.
final class Flusher {
    private unowned let store: EventStore
    private var encoder = RunEncoder(shape: RunShape())
    private var rows: [LogID: LogRow] = [:]
    private var value = ByteBuffer(capacity: 1 << 20)
    private var rowBytes = ByteBuffer(capacity: 4096)

    init(store: EventStore) { self.store = store }

    /// One slice of the journal a transaction, so that no commit of the archive is long.
    func flush() throws {
        if let journal = store.journal { store.tail.show(through: try journal.sync()) }
        while true {
            let snapshot = store.tail.snapshot
            var frames: [TailFrame] = []
            var bytes = 0
            for frame in snapshot.frames where frame.lastPosition <= snapshot.visible {
                if bytes > 0, bytes + frame.bytes.count > 8 << 20 { break }
                frames.append(frame)
                bytes += frame.bytes.count
            }
            if frames.isEmpty { return }
            try store.maintenance.withLock { _ in
                do {
                    try flush(frames)
                } catch {
                    rows = [:]
                    throw error
                }
            }
        }
    }

    private func row(_ log: LogID, _ nextNumber: inout UInt64) throws -> LogRow {
        if let known = rows[log] { return known }
        if let found = try store.archive.environment.read({ [archive = store.archive] in try archive.row(log, $0) }) { return found }
        defer { nextNumber += 1 }
        return LogRow(id: log, number: nextNumber)
    }

    private func flush(_ frames: [TailFrame]) throws {
        let archive = store.archive
        var state = try archive.environment.read { try archive.state($0) }
        if rows.count > 100_000 { rows = [:] }
        var touched: [LogID: LogRow] = [:]
        var order: [LogID] = []
        var secrets: [(log: LogID, wrapped: [UInt8])] = []
        var nextNumber = state.nextNumber
        func touch(_ log: LogID) throws {
            if touched[log] == nil {
                touched[log] = try row(log, &nextNumber)
                order.append(log)
            }
        }

        // Fold, in commit order.
        let ring = store.keys.withLock { $0.ring }
        var pending: [PendingEvent] = []
        var cursors: [LogID: SeedTree.Cursor] = [:]
        for frame in frames {
            var others = frame.others[...]
            for index in 0...frame.items.count {
                while let other = others.first, other.before == index {
                    others.removeFirst()
                    if other.kind == TailFrame.Record.refusal {
                        let mark = try MarkRecord(decoding: frame.other(other.range))
                        try touch(mark.log)
                        touched[mark.log]!.take(mark)
                    } else if other.kind == TailFrame.Record.secret {
                        let secret = try SecretRecord(decoding: frame.other(other.range))
                        try touch(secret.log)
                        secrets.append((secret.log, secret.wrapped))
                    }
                }
                guard index < frame.items.count else { break }
                let envelope = try frame.envelope(index)
                let body = BodyParts(body: frame.bodyBytes(index))
                let log = envelope.log
                try touch(log)
                try touched[log]!.apply(Effect(envelope: envelope, body: body))
                if cursors[log] == nil { cursors[log] = ring.seeds(ofLog: touched[log]!.number)?.cursor() }
                guard let salt = cursors[log]?.leaf(at: envelope.seq - 1) else {
                    throw Archive.damaged(archive.path, "the secret of log \(log) is missing")
                }
                let commitment = Merkle.bodyCommitment(salt: salt, body: frame.bodyBytes(index))
                touched[log]!.tree.append(Merkle.eventLeaf(envelope: frame.envelopeBytes(index), commitment: commitment))
                state.rawBytes += UInt64(frame.items[index].envelope.count + frame.items[index].body.count)
                state.hlc = max(state.hlc, envelope.hlc.rawValue)
                if envelope.seq == 1, case .conversation = log { state.conversations += 1 }
                if envelope.kind == Event.Kind.messageSent.rawValue { state.messages += 1 }
                pending.append(PendingEvent(envelope: envelope, body: body, commitment: nil))
            }
        }

        // Seal.
        var position = state.position + 1
        var sealed: [(position: Position, bytes: [UInt8])] = []
        let shape = RunShape()
        var start = 0
        var runBytes = 0
        try withExtendedLifetime(frames) {
            for index in 0...pending.count {
                let isEnd = index == pending.count
                if isEnd || runBytes >= shape.rawBytesMax || index - start >= shape.eventsMax {
                    if index > start {
                        value.removeAll()
                        let slices = try encoder.encode(Array(pending[start..<index]), at: position, into: &value)
                        for (number, slice) in slices.enumerated() {
                            touched[slice.log]!.slices.append(
                                LogRow.Slice(run: position, index: number, firstSeq: slice.firstSeq, count: slice.count, messages: slice.messages))
                        }
                        sealed.append((position, value.array()))
                        state.runs += 1
                        state.compressedBytes += UInt64(value.count)
                        position += Position(index - start)
                        start = index
                        runBytes = 0
                    }
                }
                if !isEnd { runBytes += pending[index].body.text.count + pending[index].body.rest.count + 24 }
            }
        }
        let firstRun = state.position
        state.position = position - 1
        state.frame = frames.last!.number
        state.nextNumber = nextNumber
        state.commit += 1

        // Write, in key order.
        let keysInOrder = order.map { (Archive.key(log: $0), $0) }.sorted { $0.0.lexicographicallyPrecedes($1.0) }
        var numbers = store.replicaNumbers.withLock { $0 }
        var newReplicas: [(UInt64, ReplicaID)] = []
        func number(_ replica: ReplicaID) -> UInt64 {
            if let known = numbers[replica] { return known }
            let number = UInt64(numbers.count)
            numbers[replica] = number
            newReplicas.append((number, replica))
            return number
        }
        var values: [([UInt8], [UInt8])] = []
        for (key, log) in keysInOrder {
            rowBytes.removeAll()
            touched[log]!.encode(into: &rowBytes)
            touched[log]!.encodeLanes(into: &rowBytes, number: number)
            values.append((key, Archive.sealed(key, rowBytes.array())))
        }
        let key = store.keys.withLock { $0.file.current.secret }
        try archive.environment.write { transaction in
            for run in sealed { try transaction.put(archive.runs, Archive.key(position: run.position), run.bytes, isAppend: run.position > firstRun) }
            for (key, value) in values { try transaction.put(archive.logs, key, value) }
            for (number, replica) in newReplicas {
                let key = Archive.key(position: number)
                try transaction.put(archive.replicas, key, Archive.sealed(key, replica.bytes))
            }
            for secret in secrets {
                let number = touched[secret.log]!.number
                let raw = try secret.wrapped.withUnsafeBytes { try Wrapping.unwrap($0, key: key, for: "log \(secret.log)") }
                let name = Archive.key(position: number)
                try transaction.put(archive.secrets, name, Archive.sealed(name, try Wrapping.wrap(raw, key: key, for: "log \(number)")))
            }
            try transaction.put(archive.meta, Archive.MetaKey.state, Archive.sealed(Archive.MetaKey.state, state.encode()))
        }
        store.replicaNumbers.withLock { $0 = numbers }
        var seqs: [LogID: Seq] = [:]
        for (log, row) in touched {
            rows[log] = row
            seqs[log] = row.seq
        }
        // In this order: whoever looks at the tail and then at the archive misses nothing.
        store.writer.withLock { $0.archived(seqs, memoryBytesMax: 32 << 20) }
        store.tail.drop(throughFrame: frames.last!.number, archived: state.position)
        store.journal?.recycle(through: state.position)
    }
}
