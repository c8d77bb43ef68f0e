import ConversationStore
import Testing

@testable import Projections
@testable import TalkWriter

/// A hub, and a replica that takes events from it.
final class Twins {
    let hub: ConversationStore
    let replica: ConversationStore
    private let folders: [Scratch]
    private var taken: [LogID: Seq] = [:]
    private var counters: [LogID: UInt64] = [:]
    private var clock: UInt64
    static let own = ReplicaID(high: 7, low: 7)

    init() throws {
        folders = [try Scratch(), try Scratch()]
        hub = try folders[0].open()
        replica = try folders[1].open()
        // Ahead of the hub's, so that whatever was made last is what wins on either side.
        clock = WallClock.milliseconds() + 3_600_000
    }

    func close() throws {
        try hub.close()
        try replica.close()
    }

    /// The replica takes what the hub has of a log, up to a seq.
    func adopt(_ log: LogID, through last: Seq = .max) throws {
        let from = taken[log] ?? 0
        guard last > from else { return }
        let events = try hub.log.events(in: log, range: from + 1...last)
        if events.isEmpty { return }
        _ = try replica.log.adoptBlocking(events, secrets: from == 0 ? [log: hub.log.secret(of: log)] : [:])
        taken[log] = from + Seq(events.count)
    }

    func adoptAll() throws {
        var logs: [LogID] = []
        try hub.log.forEachLog {
            logs.append($0.log)
            return true
        }
        for log in logs { try adopt(log) }
    }

    func pending(_ event: Event, failure: Refusal? = nil) -> PendingEvent {
        counters[event.log, default: 0] += 1
        clock += 1
        return PendingEvent(event, origin: Origin(replica: Self.own, counter: counters[event.log]!, hlc: HLC(milliseconds: clock)), failure: failure)
    }

    func accept(_ events: [PendingEvent]) throws {
        for outcome in try hub.log.appendBlocking(events.map { Submission($0.event, origin: $0.origin) }) {
            guard case .accepted = outcome else {
                Issue.record("\(outcome)")
                return
            }
        }
    }

    var conversations: [ConversationID] { get throws { try hub.log.conversations(withPrefix: "", limit: 1000) } }
}

extension ConversationStore {
    /// All of a timeline, walked backwards in pages.
    func wholeTimeline(_ id: ConversationID, page limit: Int) throws -> (messages: [Message], last: TimelinePage) {
        var all: [Message] = []
        var range = TimelineRange.newest
        while true {
            let page = try #require(try timeline(of: id, range, limit: limit))
            all = page.messages + all
            guard page.hasBefore, let first = page.messages.first else { return (all, page) }
            range = .before(first.seq)
        }
    }

    /// The same forwards.
    func wholeTimelineForwards(_ id: ConversationID, page limit: Int) throws -> [Message] {
        var all: [Message] = []
        while true {
            let page = try #require(try timeline(of: id, .after(all.last?.seq ?? 0), limit: limit))
            all += page.messages
            guard page.hasAfter, !page.messages.isEmpty else { return all }
        }
    }

    func wholeLobby(_ user: UserID, page limit: Int) throws -> [LobbyRow] {
        var all: [LobbyRow] = []
        var cursor: LobbyCursor?
        repeat {
            let page = try lobby(of: user, after: cursor, limit: limit)
            all += page.rows
            cursor = page.next
        } while cursor != nil
        return all
    }
}

extension Message {
    /// As it will be when it is confirmed, but for its state.
    var settled: Message {
        var settled = self
        guard var details else { return self }
        let wasUnconfirmed = details.unconfirmed != nil
        details.unconfirmed = nil
        details.pendingWrites = []
        settled.details = details == Details() ? nil : details
        if wasUnconfirmed, state != .deleted { settled.state = .complete }
        return settled
    }
}

extension LobbyRow {
    var settled: LobbyRow {
        var settled = self
        settled.order = HLC(rawValue: 0)
        settled.unconfirmed = nil
        settled.lastMessage?.unconfirmed = nil
        if let state = lastMessage?.state, state != .deleted { settled.lastMessage?.state = .complete }
        return settled
    }
}
