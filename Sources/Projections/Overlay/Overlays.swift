package import EventLog
internal import Synchronization

/// What a replica shows over its confirmed state: its own pending events, and the newest parts of logs that it does not hold whole.
///
/// An overlay is the same reducers folded on, in memory, over copies of the rows that they touch. It is made when somebody looks, and again after
/// each change of what it is made of or lies over; nothing of it is ever saved.
///
/// An event passes from pending to confirmed in one step: `folded` is called while the event becomes part of the confirmed state, with the store's fold
/// lock held for writing, so that no reader sees both or neither.
package final class Overlays: Sendable {
    private struct Lane: Hashable {
        var log: LogID
        var replica: ReplicaID
    }

    private struct State {
        var overlaid: [ConversationID: Overlaid] = [:]
        /// What the hub has taken of the lanes of which anything was ever pending: who sets what is pending may not know of it yet.
        var lanes: [Lane: CounterRanges] = [:]
        var version: UInt64 = 0
    }

    private struct Order {
        var version: UInt64
        var entries: ContiguousArray<LobbyIndex.Entry>
    }

    private static let ordersMax = 64
    private let state = Monitor(State())
    private let count = Atomic(0)
    private let hasLanes = Atomic(false)
    /// Users' lobbies, as far as they consist of overlays.
    private let orders = Monitor<[UserID: Order]>([:])

    package init() {}

    /// Whether nothing is overlaid: then reading costs no more than asking this.
    package var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

    /// The conversations that are not shown as they are confirmed.
    package var conversations: [ConversationID] { state.withLock { Array($0.overlaid.keys) } }

    // Changing.

    private func change(_ id: ConversationID, _ state: inout State, _ body: (inout Overlaid) -> Void) {
        var overlaid = state.overlaid.removeValue(forKey: id) ?? Overlaid()
        body(&overlaid)
        if !overlaid.isEmpty { state.overlaid[id] = overlaid }
        state.version += 1
        count.store(state.overlaid.count, ordering: .releasing)
    }

    /// Says of which logs and replicas nothing was pending so far: what is confirmed of them before this call is not known here.
    package func watch(_ events: [PendingEvent]) -> [(log: LogID, replica: ReplicaID, counter: UInt64)] {
        if events.isEmpty { return [] }
        return state.withLock { state in
            var new: [Lane: UInt64] = [:]
            for event in events {
                let lane = Lane(log: event.event.log, replica: event.origin.replica)
                if state.lanes[lane] == nil { new[lane] = min(new[lane] ?? .max, event.origin.counter) }
            }
            for lane in new.keys { state.lanes[lane] = CounterRanges() }
            hasLanes.store(true, ordering: .releasing)
            return new.map { ($0.key.log, $0.key.replica, $0.value) }
        }
    }

    /// Notes that an event is among the confirmed ones.
    package func note(_ event: RecordedEvent) { state.withLock { note(event, &$0) } }

    private func note(_ event: RecordedEvent, _ state: inout State) {
        let lane = Lane(log: event.log, replica: event.origin.replica)
        if let index = state.lanes.index(forKey: lane) { state.lanes.values[index].insert(event.origin.counter) }
    }

    /// Replaces what is pending in a conversation. What was confirmed meanwhile is left out.
    package func setPending(_ events: [PendingEvent], of id: ConversationID) {
        state.withLock { state in
            if events.isEmpty, state.overlaid[id] == nil { return }
            let open = Self.unconfirmed(events, state)
            change(id, &state) { $0.setPending(open) }
        }
    }

    /// Adds what is pending behind the rest of it; costs what is added.
    package func appendPending(_ events: [PendingEvent], of id: ConversationID) {
        if events.isEmpty { return }
        state.withLock { state in
            let open = Self.unconfirmed(events, state)
            change(id, &state) { $0.appendPending(open) }
        }
    }

    private static func unconfirmed(_ events: [PendingEvent], _ state: borrowing State) -> [PendingEvent] {
        events.filter { !(state.lanes[Lane(log: $0.event.log, replica: $0.origin.replica)]?.contains($0.origin.counter) ?? false) }
    }

    package func setPreview(_ preview: Preview?, of id: ConversationID) {
        state.withLock { state in
            if preview == nil, state.overlaid[id] == nil { return }
            change(id, &state) { $0.setPreview(preview) }
        }
    }

    /// Adds events behind the last of a preview, which follow it.
    package func extendPreview(by events: [RecordedEvent], of id: ConversationID) {
        state.withLock { state in change(id, &state) { $0.extendPreview(by: events) } }
    }

    /// Whether anything is pending or overlaid that a confirmed event may concern.
    package var isListening: Bool { hasLanes.load(ordering: .acquiring) || !isEmpty }

    /// An event became part of the confirmed state.
    package func folded(_ event: RecordedEvent) {
        guard isListening else { return }
        state.withLock { state in
            note(event, &state)
            let id = event.event.conversation
            if state.overlaid[id] != nil { change(id, &state) { $0.forget(confirmed: event) } }
        }
    }

    /// Another state is shown below.
    package func forget() {
        state.withLock { state in
            for id in Array(state.overlaid.keys) { change(id, &state) { $0.forget() } }
        }
    }

    // Reading, with the store's fold lock held.

    /// What is shown of a conversation.
    package func state(of id: ConversationID, over below: Conversations) throws -> Conversations {
        guard !isEmpty, let overlaid = state.withLock({ $0.overlaid[id] }) else { return below }
        return try overlaid.shown(id, over: below).conversations
    }

    struct Lobby {
        fileprivate var overlaid: [ConversationID: Overlaid]
        /// Of the conversations in which the user takes part, or wrote what was refused, ascending.
        var entries: ContiguousArray<LobbyIndex.Entry>

        func covers(_ id: ConversationID) -> Bool { overlaid[id] != nil }
    }

    /// The part of a user's lobby that is overlaid.
    func lobby(of user: UserID, over below: Conversations) throws -> Lobby {
        let (overlaid, version) = state.withLock { ($0.overlaid, $0.version) }
        if let known = orders.withLock({ $0[user] }), known.version == version { return Lobby(overlaid: overlaid, entries: known.entries) }
        var entries: ContiguousArray<LobbyIndex.Entry> = []
        for (id, one) in overlaid {
            let shown = try one.shown(id, over: below)
            if shown.viewers.contains(user) { entries.append(LobbyIndex.Entry(order: shown.order, conversation: id)) }
        }
        entries.sort()
        orders.withLock { orders in
            if orders.count >= Self.ordersMax { orders.removeAll() }
            orders[user] = Order(version: version, entries: entries)
        }
        return Lobby(overlaid: overlaid, entries: entries)
    }
}

/// Counters of a lane, which come nearly all in order.
struct CounterRanges: Sendable {
    private var ranges: [ClosedRange<UInt64>] = []

    mutating func insert(_ counter: UInt64) {
        if contains(counter) { return }
        if let last = ranges.last, last.upperBound < .max, last.upperBound + 1 == counter {
            ranges[ranges.count - 1] = last.lowerBound...counter
        } else {
            ranges.append(counter...counter)
        }
    }

    func contains(_ counter: UInt64) -> Bool { ranges.last { $0.contains(counter) } != nil }
}
