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
            while !waiting.isEmpty {
                let now = WallClock.milliseconds()
                let next = waiting.map { $0.last.milliseconds + milliseconds }.min()!
                try await Task.sleep(for: .milliseconds(next > now ? Int64(next - now) + 1 : 1))
                // Gone or closed meanwhile: the next opening goes on.
                guard let self else { return }
                let known = Set(waiting.map(\.message))
                let open = try self.conversations.read(in: self.log) { try $0.openStreams() }.filter { $0.replica == own && known.contains($0.message) }
                waiting = try self.endAbandoned(open, after: milliseconds)
            }
        }
    }

    /// Returns those whose time has not come.
    private func endAbandoned(_ streams: [OpenStream], after milliseconds: UInt64) throws -> [OpenStream] {
        let now = WallClock.milliseconds()
        var waiting: [OpenStream] = []
        var ended: [Submission] = []
        for stream in streams where !liveStreams.contains(stream.conversation, stream.message) {
            guard stream.last.milliseconds + milliseconds <= now else {
                waiting.append(stream)
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
