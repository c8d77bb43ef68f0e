import EventLog

/// The order of the lobbies that somebody looked at, and what their users prefer: made when first asked for, then kept up to date. Not stored: it
/// follows from the rows.
///
/// `@unchecked Sendable`: who reads holds the store's fold lock for reading, who folds for writing; `lock` guards readers from what another one brings in.
final class LobbyIndex: @unchecked Sendable {
    struct Entry: Comparable, Hashable, Sendable {
        var order: HLC
        var conversation: ConversationID

        static func < (left: Entry, right: Entry) -> Bool {
            left.order == right.order ? left.conversation < right.conversation : left.order < right.order
        }
    }

    struct Lobby: Sendable {
        /// Ascending: the newest last.
        var entries: ContiguousArray<Entry>
        /// Of the few conversations of which the user prefers anything.
        var preferences: [ConversationID: Preferences]
    }

    /// Entries in all lobbies that are kept.
    private static let entriesMax = 500_000
    private let lock = ReadWriteLock()
    private var lobbies: [UserID: Lobby] = [:]
    private var entries = 0

    /// Lends a user's lobby; asks the closure for it if it is not known.
    func read<R>(_ user: UserID, make: () throws -> Lobby, _ body: (borrowing Lobby) -> R) throws -> R {
        if let known = lock.read({ lobbies[user] }) { return body(known) }
        let made = try make()
        lock.write {
            if lobbies[user] != nil { return }
            if entries + made.entries.count > Self.entriesMax {
                lobbies.removeAll()
                entries = 0
            }
            lobbies[user] = made
            entries += made.entries.count
        }
        return body(made)
    }

    // By who folds.

    private func edit(_ user: UserID, removing old: Entry?, adding new: Entry?) {
        guard let index = lobbies.index(forKey: user) else { return }
        if let old, let place = Self.place(of: old, in: lobbies.values[index].entries) {
            lobbies.values[index].entries.remove(at: place)
            entries -= 1
        }
        if let new {
            // Nearly always the newest.
            var place = lobbies.values[index].entries.count
            while place > 0, new < lobbies.values[index].entries[place - 1] { place -= 1 }
            lobbies.values[index].entries.insert(new, at: place)
            entries += 1
        }
    }

    private static func place(of entry: Entry, in entries: ContiguousArray<Entry>) -> Int? {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle] < entry { low = middle + 1 } else { high = middle }
        }
        return low < entries.count && entries[low] == entry ? low : nil
    }

    /// Whether nobody looks at any.
    var isEmpty: Bool { lobbies.isEmpty }

    func moved(_ conversation: ConversationID, from old: HLC, to new: HLC, for users: [UserID]) {
        let old = Entry(order: old, conversation: conversation)
        let new = Entry(order: new, conversation: conversation)
        for user in users { edit(user, removing: old, adding: new) }
    }

    func joined(_ conversation: ConversationID, _ order: HLC, _ user: UserID) {
        edit(user, removing: nil, adding: Entry(order: order, conversation: conversation))
    }

    func left(_ conversation: ConversationID, _ order: HLC, _ user: UserID) {
        edit(user, removing: Entry(order: order, conversation: conversation), adding: nil)
    }

    func prefers(_ user: UserID, _ conversation: ConversationID, _ preferences: Preferences) {
        guard let index = lobbies.index(forKey: user) else { return }
        lobbies.values[index].preferences[conversation] = preferences.isEmpty ? nil : preferences
    }
}
