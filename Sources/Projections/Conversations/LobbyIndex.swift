import EventLog

/// The order of the lobbies that somebody looked at: made when first asked for, then kept up to date. Not stored: it follows from the rows.
///
/// `@unchecked Sendable`: a system lock guards what readers bring in.
final class LobbyIndex: @unchecked Sendable {
    struct Entry: Comparable, Hashable, Sendable {
        var order: HLC
        var conversation: ConversationID

        static func < (left: Entry, right: Entry) -> Bool {
            left.order == right.order ? left.conversation < right.conversation : left.order < right.order
        }
    }

    private struct State {
        var lobbies: [UserID: ContiguousArray<Entry>] = [:]
        var entries = 0
    }

    /// Entries in all lobbies that are kept.
    private static let entriesMax = 500_000
    private let state = Monitor(State())

    /// Lends a user's conversations, ascending; asks the closure for them if they are not known.
    func read<R>(_ user: UserID, make: () throws -> [Entry], _ body: (borrowing ContiguousArray<Entry>) -> R) throws -> R {
        if let known = state.withLock({ $0.lobbies[user] }) { return body(known) }
        let made = ContiguousArray(try make().sorted())
        return state.withLock { state in
            if state.lobbies[user] == nil {
                if state.entries + made.count > Self.entriesMax {
                    state.lobbies.removeAll()
                    state.entries = 0
                }
                state.lobbies[user] = made
                state.entries += made.count
            }
            return body(made)
        }
    }

    private func edit(_ user: UserID, _ state: inout State, removing old: Entry?, adding new: Entry?) {
        guard let index = state.lobbies.index(forKey: user) else { return }
        if let old, let place = Self.place(of: old, in: state.lobbies.values[index]) {
            state.lobbies.values[index].remove(at: place)
            state.entries -= 1
        }
        if let new {
            // Nearly always the newest.
            var place = state.lobbies.values[index].count
            while place > 0, new < state.lobbies.values[index][place - 1] { place -= 1 }
            state.lobbies.values[index].insert(new, at: place)
            state.entries += 1
        }
    }

    private static func place(of entry: Entry, in entries: borrowing ContiguousArray<Entry>) -> Int? {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle] < entry { low = middle + 1 } else { high = middle }
        }
        return low < entries.count && entries[low] == entry ? low : nil
    }

    func moved(_ conversation: ConversationID, from old: HLC, to new: HLC, for users: [UserID]) {
        state.withLock { state in
            if state.lobbies.isEmpty { return }
            let old = Entry(order: old, conversation: conversation)
            let new = Entry(order: new, conversation: conversation)
            for user in users { edit(user, &state, removing: old, adding: new) }
        }
    }

    func joined(_ conversation: ConversationID, _ order: HLC, _ user: UserID) {
        state.withLock { state in
            if state.lobbies.isEmpty { return }
            edit(user, &state, removing: nil, adding: Entry(order: order, conversation: conversation))
        }
    }

    func left(_ conversation: ConversationID, _ order: HLC, _ user: UserID) {
        state.withLock { state in
            if state.lobbies.isEmpty { return }
            edit(user, &state, removing: Entry(order: order, conversation: conversation), adding: nil)
        }
    }
}
