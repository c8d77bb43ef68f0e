internal import EventLog

/// On which of the events that were sent and have no answer others rest: all of a conversation on its creation, the pieces of a stream on the piece before. They
/// go in the same flight, and the hub refuses them with what they rest on: decided by themselves they would speak of whatever else has that id.
struct Bases {
    private struct Base {
        var id: UInt64
        var counter: UInt64
        /// Of a chunk its index.
        var index: UInt32?
    }

    /// In the order made.
    private struct Known {
        var creations: [Base] = []
        var streams: [MessageID: [Base]] = [:]

        mutating func add(_ entry: OutboxEntry) {
            let base = Base(id: entry.id, counter: entry.origin.counter, index: entry.chunkIndex)
            switch entry.event.content {
            case .conversationCreated: creations.append(base)
            case .messageSent(let message) where message.isStreaming: streams[message.id, default: []].append(base)
            default: if let stream = entry.continuedStream { streams[stream, default: []].append(base) }
            }
        }

        /// What was made behind an entry bears it as little as what others made: a conversation may have been made twice. Nor does a later chunk, behind which
        /// one comes that was refused and is tried again.
        func base(under entry: OutboxEntry) -> Base? {
            let index = entry.chunkIndex ?? .max
            let pieces = entry.continuedStream.flatMap { streams[$0] } ?? []
            return Self.before(entry.id, pieces).last { $0.index.map { $0 < index } ?? true } ?? Self.before(entry.id, creations).last
        }

        /// A stream may have very many.
        private static func before(_ id: UInt64, _ bases: [Base]) -> ArraySlice<Base> {
            var (low, high) = (0, bases.count)
            while low < high {
                let middle = (low + high) / 2
                if bases[middle].id < id { low = middle + 1 } else { high = middle }
            }
            return bases[..<low]
        }
    }

    private struct Lane: Hashable {
        var conversation: ConversationID
        var replica: ReplicaID
    }

    /// Made of a lane when it is first asked for.
    private var known: [Lane: Known] = [:]

    /// The counter of the event on which an entry rests that is sent under a replica's id; 0: on none. Of another lane it cannot be: an entry waits for all before
    /// it that was sent under another id.
    mutating func counter(under entry: OutboxEntry, of replica: ReplicaID, _ table: OutboxEntries) -> UInt64 {
        guard case .conversation(let id) = entry.event.log else { return 0 }
        let lane = Lane(conversation: id, replica: replica)
        if known[lane] == nil {
            var new = Known()
            for sent in table[id] where sent.isUnanswered && sent.origin.replica == replica && sent.event.log == entry.event.log { new.add(sent) }
            known[lane] = new
        }
        return known[lane]!.base(under: entry)?.counter ?? 0
    }

    /// An entry has its counter and goes.
    mutating func add(_ entry: OutboxEntry) {
        if case .conversation(let id) = entry.event.log { known[Lane(conversation: id, replica: entry.origin.replica)]?.add(entry) }
    }
}

extension OutboxEntry {
    /// The stream of which it is a later piece.
    var continuedStream: MessageID? {
        switch event.content {
        case .chunkAppended(let id, _, _), .messageCompleted(let id, _, _), .messageInterrupted(let id, _): id
        default: nil
        }
    }

    fileprivate var chunkIndex: UInt32? { if case .chunkAppended(_, let index, _) = event.content { index } else { nil } }
}
