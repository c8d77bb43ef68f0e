internal import Synchronization

extension EventStore {
    /// Appends events, each decided for itself unless the batch is atomic: then all or none.
    ///
    /// Waiting appends of all callers go into one commit. Returns when the answers are durable (`.full`) or written (`.relaxed`). Cancelling the
    /// task changes nothing: a batch is never halved.
    ///
    /// - Throws: `EventLogError` with code `diskFull` (nothing was written), `unknownOutcome` (a write or sync failed: reopen and retry, which is
    ///   safe), `damaged`, `closed` or `readOnly`.
    public func append(_ submissions: [Submission], isAtomic: Bool = false) async throws -> [AppendOutcome] {
        try await withCheckedThrowingContinuation { continuation in append(submissions, isAtomic: isAtomic) { continuation.resume(with: $0) } }
    }

    /// The same without a task: `reply` is called once, on this thread or by whoever commits, who is not to be held up.
    package func append(_ submissions: [Submission], isAtomic: Bool = false, reply: @escaping @Sendable (Result<[AppendOutcome], any Error>) -> Void) {
        let work = Request.Work.submissions(submissions, isAtomic: isAtomic)
        do {
            try checkWritable()
            if submissions.isEmpty { return reply(.success([])) }
            if options.runsInline { return reply(.success(try run(work))) }
        } catch {
            return reply(.failure(error))
        }
        enqueue(Request(work: work, reply: .call(reply)))
    }

    /// The same from a thread that may wait: without a hop to another thread, where no one else is appending.
    public func appendBlocking(_ submissions: [Submission], isAtomic: Bool = false) throws -> [AppendOutcome] {
        try checkWritable()
        if submissions.isEmpty { return [] }
        return try run(.submissions(submissions, isAtomic: isAtomic))
    }

    /// Takes events as another store recorded them, with their seqs, origins and clocks (`import --exact`).
    package func adoptBlocking(_ events: [RecordedEvent], secrets: [LogID: [UInt8]]) throws -> [AppendOutcome] {
        try checkWritable()
        return try run(.adoption(events, secrets: Self.seeds(secrets)))
    }

    static func seeds(_ secrets: [LogID: [UInt8]]) throws -> [LogID: PuncturedSeeds] {
        var seeds: [LogID: PuncturedSeeds] = [:]
        for (log, secret) in secrets {
            guard let parsed = PuncturedSeeds(secret: secret) else {
                throw EventLogError(.invalidArgument, "log \(log): its secret has \(secret.count) bytes and cannot be read")
            }
            seeds[log] = parsed
        }
        return seeds
    }

    func checkWritable() throws {
        try checkOpen()
        if journal == nil { throw EventLogError(.readOnly, "\(path) is open for reading only") }
    }

    /// For a caller that may not wait: where there is no room, the request waits for some.
    func enqueue(_ request: Request) {
        let isClosed = queue.withLock { queue in
            if queue.isClosing { return true }
            if isFull(queue, for: request) {
                queue.blocked.append(request)
            } else {
                queue.requests.append(request)
                queue.waiting += request.count
                if !queue.isLed { self.queue.wakeAll() }
            }
            return false
        }
        if isClosed, case .call(let reply) = request.reply { reply(.failure(EventLogError(.closed, "\(path): the store is closed"))) }
    }

    private func isFull(_ queue: borrowing Queue, for request: Request) -> Bool {
        queue.waiting > 0 && queue.waiting + request.count > options.queueDepthMax && !queue.isClosing
    }

    private func run(_ work: Request.Work) throws -> [AppendOutcome] {
        let box = ReplyBox()
        let request = Request(work: work, reply: .box(box))
        let isFull: (borrowing Queue) -> Bool = { self.isFull($0, for: request) }
        // Whoever leads wakes threads at the gate even if no answer is for a thread.
        let isGated = queue.withLock { queue -> Bool in
            guard isFull(queue) else { return false }
            queue.threadsAtGate += 1
            return true
        }
        var leads = try queue.withLock(waitingWhile: isFull) { queue -> Bool in
            if isGated { queue.threadsAtGate -= 1 }
            if queue.isClosing { throw EventLogError(.closed, "\(path): the store is closed") }
            queue.requests.append(request)
            queue.waiting += request.count
            if queue.isLed { return false }
            queue.isLed = true
            return true
        }
        while true {
            if leads { lead(until: box) }
            let result = queue.withLock(waitingWhile: { box.result == nil && $0.isLed }) { queue -> Result<[AppendOutcome], any Error>? in
                if box.result == nil { queue.isLed = true }
                return box.result
            }
            if let result {
                return try result.get()
            }
            leads = true
        }
    }

    /// The writer's own thread: leads the queue for callers that may not wait, and syncs a relaxed store in time.
    func startThreads() {
        if options.runsInline { return }
        WorkerThread.start { [self] in
            while true {
                enum Next { case lead, sync, end }
                let isIdle: (borrowing Queue) -> Bool = { ($0.requests.isEmpty || $0.isLed) && !$0.isClosing }
                let decide: (inout Queue) -> Next = { queue in
                    if queue.isLed { return queue.isClosing && queue.requests.isEmpty ? .end : .sync }
                    if queue.requests.isEmpty { return queue.isClosing ? .end : .sync }
                    queue.isLed = true
                    return .lead
                }
                let next: Next
                if case .relaxed(let interval) = options.durability {
                    let milliseconds = Int(interval.components.seconds) * 1000 + Int(interval.components.attoseconds / 1_000_000_000_000_000)
                    next = queue.withLock(waitingWhile: isIdle, atMostMilliseconds: max(1, milliseconds), decide)
                } else {
                    next = queue.withLock(waitingWhile: isIdle, decide)
                }
                if case .end = next { break }
                if case .lead = next { lead(until: nil) }
                if case .relaxed = options.durability { syncRelaxed() }
            }
        }
        WorkerThread.start { [self] in flushLoop() }
    }

    private func syncRelaxed() {
        // Forgotten before the sync: what is written while it runs is for the next.
        let hasUnsynced = lead { leader in
            defer { leader.hasUnsynced = false }
            return leader.hasUnsynced
        }
        guard let journal, hasUnsynced else { return }
        do {
            show(through: try journal.sync())
        } catch {
            let failure = Self.poisoned(path, error)
            writer.withLock { $0.failure = failure }
            note(failure)
        }
    }

    /// What was written before and is synced now becomes visible in the log: whoever waits for it looks again.
    func show(through position: Position) {
        tail.show(through: position)
        options.observer? { [] }
    }

    /// One frame takes what waits, up to so much; a single request may be larger, up to `requestBytesMax`.
    private static let frameEventsMax = 16_384, frameBytesMax = 8 << 20, requestBytesMax = 1 << 30

    /// Commits groups until the caller's own request is answered (or, on the writer's thread, until the queue is empty).
    private func lead(until box: ReplyBox?) {
        while true {
            let group = queue.withLock { queue -> [Request] in
                if queue.requests.isEmpty || box?.result != nil {
                    queue.isLed = false
                    if !queue.requests.isEmpty || queue.isClosing { self.queue.wakeAll() }
                    return []
                }
                // One frame takes what waits, within reason.
                var events = 0
                var bytes = 0
                var end = 0
                while end < queue.requests.count {
                    let more = Self.bytesBound(queue.requests[end])
                    if end > 0, events + queue.requests[end].count > Self.frameEventsMax || bytes + more > Self.frameBytesMax { break }
                    events += queue.requests[end].count
                    bytes += more
                    end += 1
                }
                let group = Array(queue.requests[..<end])
                queue.requests.removeFirst(end)
                return group
            }
            if group.isEmpty { return }
            let results = commit(group)
            var calls: [(reply: @Sendable (Result<[AppendOutcome], any Error>) -> Void, result: Result<[AppendOutcome], any Error>)] = []
            var unblocked: [Request] = []
            queue.withLock { queue in
                var hasWaiter = false
                for (request, result) in zip(group, results) {
                    queue.waiting -= request.count
                    switch request.reply {
                    case .call(let reply): calls.append((reply, result))
                    case .box(let reply):
                        reply.result = result
                        if reply !== box { hasWaiter = true }
                    }
                }
                unblocked = queue.blocked
                queue.blocked = []
                if hasWaiter || queue.threadsAtGate > 0 { self.queue.wakeAll() }
            }
            for (reply, result) in calls { reply(result) }
            for request in unblocked { enqueue(request) }
        }
    }

    /// Decides, writes and syncs one group.
    private func commit(_ group: [Request]) -> [Result<[AppendOutcome], any Error>] {
        let results = lead { leader -> [Result<[AppendOutcome], any Error>] in
            do {
                return try commit(group, &leader)
            } catch let error as EventLogError where error.code == .diskFull && group.count > 1 {
                return commitEach(group, error, &leader)
            } catch {
                note(error, Self.bytesBound(group))
                return group.map { _ in .failure(error) }
            }
        }
        flushIfAsked()
        return results
    }

    /// There is no room for all of a group: one that takes much must not take the others with it, which may be of somebody else.
    private func commitEach(_ group: [Request], _ failure: EventLogError, _ leader: inout LeaderState) -> [Result<[AppendOutcome], any Error>] {
        var failure = failure
        // As long as the archive takes nothing the journal may have no room for anything, and each try would wait for the archive.
        var least = flushing.withLock { $0.failure == nil } ? Int.max : 0
        return group.map { request in
            let bytes = Self.bytesBound(request)
            // What takes as much as something that did not fit is not tried.
            if bytes >= least { return .failure(failure) }
            do {
                return try commit([request], &leader)[0]
            } catch {
                note(error, bytes)
                if let error = error as? EventLogError, error.code == .diskFull { (failure, least) = (error, bytes) }
                return .failure(error)
            }
        }
    }

    static func poisoned(_ path: String, _ error: any Error) -> EventLogError {
        EventLogError(
            .unknownOutcome,
            "\(path): \(error). Whether the last events are kept is known after reopening the store; appending them again is safe")
    }

    private func commit(_ group: [Request], _ leader: inout LeaderState) throws -> [Result<[AppendOutcome], any Error>] {
        let journal = journal!
        if let failure = writer.withLock({ $0.failure }) { throw failure }
        let bytes = Self.bytesBound(group)
        guard bytes <= Self.requestBytesMax else {
            throw EventLogError(.invalidArgument, "\(path): a batch of up to \(bytes) bytes; one has at most \(Self.requestBytesMax): split it")
        }
        try makeRoom(bytes)
        leader.frame.begin()
        var results: [Result<[AppendOutcome], any Error>] = []
        let isSynced = options.durability == .full
        var breaks: [Int] = []
        defer { leader.events.removeAll(keepingCapacity: leader.events.capacity <= LeaderState.eventsKept) }
        let (first, last, frame) = try writer.withLock { writer throws -> (Position, Position, TailFrame?) in
            let first = writer.nextPosition
            writer.beginFrame(events: group.reduce(0) { $0 + $1.count })
            for request in group {
                let begin = writer.collected.count
                defer {
                    if !request.isAtomic { breaks += stride(from: begin + Self.eventsALock, to: writer.collected.count, by: Self.eventsALock) }
                    breaks.append(writer.collected.count)
                }
                do {
                    results.append(.success(try decide(request, writer, &leader.frame, isSynced)))
                } catch {
                    // This request's failure alone: what was decided before it has its positions and must be written.
                    results.append(.failure(archive.typed(error)))
                }
            }
            let frame = leader.frame.isEmpty ? nil : leader.frame.tailFrame(number: journal.lastFrame + 1, firstPosition: first, in: frameMemory)
            writer.takeCollected(&leader.events)
            return (first, writer.nextPosition - 1, frame)
        }
        guard let frame else { return results }
        do {
            try journal.append(
                &leader.frame.bytes, firstPosition: first, events: frame.items.count, isSynced: isSynced && !PlantedBug.answerBeforeSync.isPlanted)
        } catch {
            let failure = Self.poisoned(path, error)
            writer.withLock { $0.failure = failure }
            throw failure
        }
        writing.withLock { $0.failure = nil }
        fold(leader.events, breaks: breaks, frame: frame)
        if isSynced { tail.show(through: last) } else { leader.hasUnsynced = true }
        if !leader.events.isEmpty { options.observer? { leader.events } }
        if tail.bytes >= flushBytes { requestFlush() }
        return results
    }

    private func decide(_ request: Request, _ writer: Writer, _ frame: inout FrameBuilder, _ isSynced: Bool) throws -> [AppendOutcome] {
        var outcomes: [AppendOutcome] = []
        outcomes.reserveCapacity(request.count)
        switch request.work {
        case .submissions(let submissions, let isAtomic):
            let checkpoint = isAtomic && submissions.count > 1 ? try writer.checkpoint(submissions, frame) : nil
            var damages: [LogID: String] = [:]
            for index in submissions.indices {
                if !damages.isEmpty, let damage = damages[submissions[index].event.log] {
                    outcomes.append(.undecided(damage))
                    continue
                }
                do {
                    switch try submissions.withUnsafeBufferPointer({ try lend($0.baseAddress! + index) { try writer.take($0, into: &frame) } }) {
                    case .accepted(var receipt):
                        receipt.isDurable = isSynced
                        outcomes.append(.accepted(receipt))
                    case .duplicate(var receipt):
                        if !isSynced { receipt.isDurable = receipt.position <= tail.snapshot.visible }
                        outcomes.append(.duplicate(receipt))
                    case .refused(let refusal):
                        guard let checkpoint else {
                            outcomes.append(.refused(refusal))
                            continue
                        }
                        writer.restore(checkpoint, &frame)
                        outcomes = Array(repeating: .withdrawn, count: submissions.count)
                        outcomes[index] = .refused(refusal)
                        return outcomes
                    }
                } catch {
                    // A damaged past: nothing of an atomic batch stays; of another what stands before it does.
                    if let checkpoint { writer.restore(checkpoint, &frame) }
                    guard checkpoint == nil, submissions[index].leavesDamage, let damage = archive.typed(error) as? EventLogError, damage.code == .damaged
                    else {
                        throw error
                    }
                    damages[submissions[index].event.log] = damage.description
                    outcomes.append(.undecided(damage.description))
                }
            }
        case .adoption(let events, let secrets):
            var pending = secrets
            let key = keys.withLock { $0.file.current.secret }
            for event in events {
                let secret = pending.isEmpty ? nil : pending.removeValue(forKey: event.log)
                let (receipt, number) = try writer.adopt(event, secret: secret, key: key, into: &frame)
                if let secret { keys.withLock { $0.ring.explicit[number] = secret } }
                outcomes.append(.accepted(receipt))
            }
        }
        return outcomes
    }

    private static func bytesBound(_ group: [Request]) -> Int { group.reduce(0) { $0 + bytesBound($1) } }

    /// At most so many bytes does an event need in the journal.
    package static func bytesBound(_ submission: Submission) -> Int { bytesBound(submission.event) + (submission.newer?.byteCount ?? 0) }

    private static func bytesBound(_ event: Event) -> Int {
        var bytes = 900 + event.author.string.utf8.count
        switch event.content {
        case .messageSent(let message): bytes += message.text.utf8.count + (message.parts?.utf8.count ?? 0) + (message.requestID?.utf8.count ?? 0)
        case .chunkAppended(_, _, let text), .messageEdited(_, let text), .messageInterrupted(_, let text): bytes += text.utf8.count
        case .conversationCreated(_, let title, let people): bytes += (title?.utf8.count ?? 0) + people.reduce(0) { $0 + $1.string.utf8.count + 4 }
        case .conversationUpdated(let title, let attributes):
            bytes += (title?.utf8.count ?? 0) + attributes.reduce(0) { $0 + $1.name.utf8.count + ($1.value?.utf8.count ?? 0) + 16 }
        case .messageCompleted(_, let reason, _): bytes += reason?.utf8.count ?? 0
        case .preferenceSet(let key, let value): bytes += key.utf8.count + (value?.utf8.count ?? 0)
        case .custom(let name, let payload): bytes += name.utf8.count + payload.count
        case .unknown(_, let body): bytes += body.count
        default: break
        }
        return bytes
    }

    /// At most so many bytes does a request need in the journal.
    private static func bytesBound(_ request: Request) -> Int {
        switch request.work {
        case .submissions(let submissions, _): return submissions.reduce(0) { $0 + bytesBound($1) }
        case .adoption(let events, let secrets):
            return events.reduce(0) { $0 + bytesBound($1.event) + ($1.newer?.byteCount ?? 0) } + secrets.values.reduce(0) { $0 + 400 + $1.encodedBytes }
        }
    }

    /// Waits until the journal has room; fails, with nothing decided, if the archive cannot take more.
    private func makeRoom(_ bytes: Int) throws {
        while true {
            do {
                if case .ready = try journal!.reserve(bytes) { return }
            } catch let error as SystemError {
                throw error.typed
            }
            try waitForSlice()
        }
    }
}
