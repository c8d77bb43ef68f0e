internal import EventLog

/// On which of the events that were sent and have no answer others rest: all of a conversation on its creation, the pieces of a stream on the piece before. They
/// go in the same flight, and the hub refuses them with what they rest on: decided by themselves they would speak of whatever else has that id. So does
/// what speaks of a message, where that was accepted before it was sent, by a hub that was set back since.
struct Bases {
    private struct Base: Identifiable {
        var id: UInt64
        var counter: UInt64
        /// Of a chunk its index.
        var index: UInt32?
    }

    /// In the order made.
    private struct Known {
        var creations: [Base] = []
        var messages: [MessageID: [Base]] = [:]
        /// Of streams, but for their beginnings.
        var pieces: [MessageID: [Base]] = [:]

        mutating func add(_ entry: OutboxEntry) {
            let base = Base(id: entry.id, counter: entry.origin.counter, index: entry.chunkIndex)
            switch entry.event.content {
            case .conversationCreated: creations.append(base)
            case .messageSent(let message): messages[message.id, default: []].append(base)
            default: if let stream = entry.continuedStream { pieces[stream, default: []].append(base) }
            }
        }

        /// What was made behind an entry bears it as little as what others made: a conversation may have been made twice. Nor does a chunk of a greater index:
        /// one that was refused and is tried again comes behind those that followed it.
        func base(under entry: OutboxEntry) -> Base? {
            let index = entry.chunkIndex ?? .max
            let own = entry.continuedStream.flatMap { pieces[$0] } ?? []
            if let piece = own.before(entry.id).last(where: { base in base.index.map { $0 < index } ?? true }) { return piece }
            let message = entry.neededMessages.first.flatMap { messages[$0]?.before(entry.id).last }
            return message ?? creations.before(entry.id).last
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

    var chunkIndex: UInt32? { if case .chunkAppended(_, let index, _) = event.content { index } else { nil } }

    /// The chunk on which a later piece of a stream goes on.
    ///
    /// - Parameter chunks: of each stream, in the order made.
    func chunk(before chunks: [MessageID: [OutboxEntry]]) -> OutboxEntry? {
        guard let stream = continuedStream, let own = chunks[stream] else { return nil }
        let index = chunkIndex ?? .max
        return own.before(id).last { $0.chunkIndex ?? .max < index }
    }
}

extension Array where Element: Identifiable, Element.ID == UInt64 {
    /// Of entries in their order those that were made before one. A stream may have very many pieces.
    func before(_ id: UInt64) -> ArraySlice<Element> {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return self[..<low]
    }
}
