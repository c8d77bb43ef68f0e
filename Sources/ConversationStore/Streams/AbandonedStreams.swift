internal import EventLog
internal import Projections

extension ConversationStore {
    /// Ends the streams that this store began in an earlier process and that nobody has gone on with for so long, counted from when the hub last
    /// accepted something of them. Those that are younger are looked at again when their time comes.
    func endAbandonedStreams(after patience: Duration) throws {
        let milliseconds = Self.milliseconds(patience)
        let (ended, waiting) = try claimAbandoned(ownOpenStreams(), after: milliseconds)
        defer { release(ended) }
        if !ended.isEmpty { _ = try log.appendBlocking(ended.map(Self.ending)) }
        if waiting.isEmpty || options.runsInline { return }
        Task.detached { [weak self, options] in
            var waiting = waiting
            while !waiting.isEmpty {
                let now = options.wallMilliseconds()
                let next = waiting.map { Self.time(of: $0, after: milliseconds) }.min()!
                // Not in one go: a clock that was set shows within the minute.
                try await Task.sleep(for: .milliseconds(next > now ? Int64(min(next - now + 1, 60_000)) : 1))
                // Gone or closed meanwhile: the next opening goes on.
                guard let self else { return }
                do {
                    waiting = try await self.endAbandoned(among: Set(waiting.map(\.message)), after: milliseconds)
                } catch let error as EventLogError where error.code == .closed || error.code == .unknownOutcome {
                    return
                } catch {
                    // A full disk, say: they stay open, and are looked at again.
                    try await Task.sleep(for: .seconds(1))
                }
            }
        }
    }

    private func endAbandoned(among known: Set<MessageID>, after milliseconds: UInt64) async throws -> [OpenStream] {
        let (ended, waiting) = try claimAbandoned(ownOpenStreams().filter { known.contains($0.message) }, after: milliseconds)
        defer { release(ended) }
        if !ended.isEmpty { _ = try await log.append(ended.map(Self.ending)) }
        return waiting
    }

    private func ownOpenStreams() throws -> [OpenStream] {
        let own = ReplicaID(high: log.id.high, low: log.id.low)
        return try view { try $0.openStreams() }.filter { $0.replica == own }.map { stream in
            var stream = stream
            stream.last = try lastAccepted(stream)
            return stream
        }
    }

    /// When the hub last accepted something of a stream: found from the conversation's end.
    private func lastAccepted(_ stream: OpenStream) throws -> HLC {
        var last = HLC(rawValue: 0)
        try log.forEachEvent(in: .conversation(stream.conversation), range: stream.seq...Seq.max, isReversed: true) { event in
            let isPart = event.seq == stream.seq || (event.targetSeq == stream.seq && event.event.content.kind == .chunkAppended)
            if isPart { last = event.hlc }
            return !isPart
        }
        return last
    }

    /// Those whose time has come, which nobody can go on with until they are released, and those whose time has not come.
    private func claimAbandoned(_ streams: [OpenStream], after milliseconds: UInt64) throws -> (ended: [OpenStream], waiting: [OpenStream]) {
        let now = options.wallMilliseconds()
        var ended: [OpenStream] = []
        var waiting: [OpenStream] = []
        for stream in streams {
            if Self.time(of: stream, after: milliseconds) > now {
                waiting.append(stream)
            } else if try liveStreams.claim(stream.conversation, stream.message) {
                ended.append(stream)
            }
        }
        return (ended, waiting)
    }

    private func release(_ streams: [OpenStream]) { for stream in streams { liveStreams.release(stream.conversation, stream.message) } }

    private static func ending(_ stream: OpenStream) -> Submission {
        var submission = Submission(
            Event(
                conversation: stream.conversation, author: stream.author, content: .messageInterrupted(message: stream.message, reason: "abandoned")))
        // Its author may have left meanwhile.
        submission.isOwnHousekeeping = true
        return submission
    }

    private static func time(of stream: OpenStream, after milliseconds: UInt64) -> UInt64 {
        let (time, isOver) = stream.last.milliseconds.addingReportingOverflow(milliseconds)
        return isOver ? .max : time
    }

    private static func milliseconds(_ patience: Duration) -> UInt64 {
        let (seconds, isOver) = UInt64(clamping: patience.components.seconds).multipliedReportingOverflow(by: 1000)
        return isOver ? .max : seconds + UInt64(clamping: patience.components.attoseconds / 1_000_000_000_000_000)
    }
}

extension ConversationStoreOptions {
    func wallMilliseconds() -> UInt64 { wallClock?() ?? WallClock.milliseconds() }
}
