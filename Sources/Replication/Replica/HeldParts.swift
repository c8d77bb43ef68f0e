public import EventLog
internal import ConversationStore

/// What a replica holds of a conversation beside its log, because something before it is not here.
public struct HeldPart: Hashable, Sendable {
    public let conversation: ConversationID
    /// The seqs that are missing before it; `nil` if the user may not see what they were.
    public let hole: ClosedRange<Seq>?
    /// The seq of the first of its events; `nil` if there is none yet.
    public let firstSeq: Seq?
    /// How many of its events are here.
    public let events: Int
    /// Who takes part behind its last event, if it tells.
    public let participants: [UserID]?
}

/// All that a replica holds beside its logs, for whoever reads its store beside its writer.
///
/// It is to be read before the store is opened, like ``ReplicaOverlay``: what the log takes over in between is then in both, and told once.
public struct HeldParts {
    private let previews: [(part: Replica.Part, participants: [UserID])]
    private let damaged: [DamagedLogs.Rest]

    /// `nil` if the store is no replica.
    ///
    /// - Throws: `EventLogError`.
    public init?(of path: String) throws {
        guard let side = try SyncTables.openIfPresent(path) else { return nil }
        defer { side.close() }
        guard try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.user) }) != nil else { return nil }
        let previews = try Previews(side)
        self.previews = previews.all.map { ($0, previews.participants(of: $0.log)) }.sorted { $0.0.log < $1.0.log }
        damaged = try DamagedLogs(side).rests()
    }

    public var isEmpty: Bool { previews.isEmpty && damaged.isEmpty }

    /// What of it the store does not hold in its logs.
    public func beside(_ store: EventStore) throws -> [HeldPart] {
        var result: [HeldPart] = []
        for (part, participants) in previews {
            guard case .conversation(let id) = part.log else { continue }
            let held = try store.lastSeq(of: part.log)
            guard part.lastSeq > held else { continue }
            let before = max(held, part.baseSeq)
            result.append(
                HeldPart(
                    conversation: id, hole: before > held && !part.isFirst ? held + 1...before : nil, firstSeq: part.lastSeq > before ? before + 1 : nil,
                    events: Int(part.lastSeq - before), participants: participants))
        }
        for rest in damaged {
            guard case .conversation(let id) = rest.log else { continue }
            let held = try store.lastSeq(of: rest.log)
            let ahead = rest.seqs.filter { $0 > held }
            guard held < rest.size, !result.contains(where: { $0.conversation == id }) else { continue }
            let next = ahead.first ?? rest.size + 1
            result.append(
                HeldPart(
                    conversation: id, hole: next > held + 1 ? held + 1...next - 1 : nil, firstSeq: ahead.first, events: ahead.count, participants: nil))
        }
        return result
    }
}
