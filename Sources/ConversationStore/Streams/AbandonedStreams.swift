internal import EventLog
internal import Projections

extension ConversationStore {
    /// Ends the streams that this store began in an earlier process and that nobody has gone on with for so long, counted from when the hub last
    /// accepted something of them. Those that are younger are looked at again when their time comes.
    func endAbandonedStreams(after patience: Duration) throws {
        let milliseconds = UInt64(clamping: patience.components.seconds) * 1000 + UInt64(clamping: patience.components.attoseconds / 1_000_000_000_000_000)
        let own = ReplicaID(high: log.id.high, low: log.id.low)
        let candidates = try conversations.read(in: log) { try $0.openStreams() }.filter { $0.replica == own }
        let waiting = try endAbandoned(candidates, after: milliseconds)
        if waiting.isEmpty { return }
        Task.detached { [weak self] in
            var waiting = waiting
            while let next = waiting.map(\.due).min() {
                let now = WallClock.milliseconds()
                try await Task.sleep(for: .milliseconds(next > now ? Int64(next - now) + 1 : 1))
                // Gone or closed meanwhile: the next opening goes on.
                guard let self else { return }
                let known = Set(waiting.map(\.stream.message))
                let open = try self.conversations.read(in: self.log) { try $0.openStreams() }.filter { $0.replica == own && known.contains($0.message) }
                waiting = try self.endAbandoned(open, after: milliseconds)
            }
        }
    }

    /// When the hub last accepted something of a stream: found from the conversation's end.
    private func lastAccepted(_ stream: OpenStream) throws -> UInt64 {
        var last: UInt64 = 0
        try log.forEachEvent(in: .conversation(stream.conversation), range: stream.seq...Seq.max, isReversed: true) { event in
            guard event.seq == stream.seq || event.targetSeq == stream.seq, event.event.content.kind == .chunkAppended || event.seq == stream.seq else {
                return true
            }
            last = event.hlc.milliseconds
            return false
        }
        return last
    }

    /// Returns those whose time has not come, and when it comes.
    private func endAbandoned(_ streams: [OpenStream], after milliseconds: UInt64) throws -> [(stream: OpenStream, due: UInt64)] {
        let now = WallClock.milliseconds()
        var waiting: [(stream: OpenStream, due: UInt64)] = []
        var ended: [Submission] = []
        for stream in streams where !liveStreams.contains(stream.conversation, stream.message) {
            let (due, isNever) = try lastAccepted(stream).addingReportingOverflow(milliseconds)
            guard due <= now, !isNever else {
                if !isNever { waiting.append((stream, due)) }
                continue
            }
            var submission = Submission(
                Event(
                    conversation: stream.conversation, author: stream.author,
                    content: .messageInterrupted(message: stream.message, reason: "abandoned")))
            // Its author may have left meanwhile.
            submission.isOwnHousekeeping = true
            ended.append(submission)
        }
        if !ended.isEmpty { _ = try log.appendBlocking(ended) }
        return waiting
    }
}
