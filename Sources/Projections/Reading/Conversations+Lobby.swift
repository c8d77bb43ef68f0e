package import EventLog

extension Conversations {
    /// A page of a user's conversations, newest first, after a cursor.
    package func lobby(of user: UserID, after cursor: LobbyCursor?, limit: Int) throws -> LobbyPage {
        let hash = UserHash(user)
        let (entries, isMore) = try lobbies.read(user, make: { try self.entries(of: hash) }) { all -> (ArraySlice<LobbyIndex.Entry>, Bool) in
            var end = all.count
            if let cursor {
                let entry = LobbyIndex.Entry(order: cursor.order, conversation: cursor.conversation)
                var low = 0
                while low < end {
                    let middle = (low + end) / 2
                    if all[middle] < entry { low = middle + 1 } else { end = middle }
                }
            }
            let start = max(0, end - max(limit, 0))
            return (ArraySlice(all[start..<end]), start > 0)
        }
        var result: [LobbyRow] = []
        result.reserveCapacity(entries.count)
        for entry in entries.reversed() {
            if let row = try lobbyRow(entry.conversation, user, hash) { result.append(row) }
        }
        return LobbyPage(rows: result, next: isMore ? result.last?.cursor : nil)
    }

    /// One conversation as a user's lobby shows it; `nil` if the user does not take part.
    package func lobbyRow(_ id: ConversationID, _ user: UserID) throws -> LobbyRow? { try lobbyRow(id, user, UserHash(user)) }

    private func lobbyRow(_ id: ConversationID, _ user: UserID, _ hash: UserHash) throws -> LobbyRow? {
        let preferences = try members.read(MemberKey(hash, id)) { member -> [String: String] in
            guard let member, !member.preferences.isEmpty else { return [:] }
            var result: [String: String] = [:]
            for (key, register) in member.preferences { if let value = register.value { result[key] = value } }
            return result
        }
        return try rows.read(id) { row in
            guard let row, let place = row.person(user), row.people[place].isIn else { return nil }
            var last: LobbyRow.LastMessage?
            if let shown = row.last {
                last = LobbyRow.LastMessage(
                    id: shown.id, seq: shown.seq, author: row.people[Int(shown.author)].user, role: shown.role, state: shown.state, sentAt: shown.sentAt,
                    snippet: shown.snippet)
            }
            return LobbyRow(
                conversation: id, kind: row.kind, title: row.title.value, participants: row.participants, lastMessage: last,
                unread: row.unread(of: place), preferences: preferences, order: row.order)
        }
    }

    private func entries(of user: UserHash) throws -> [LobbyIndex.Entry] {
        var result: [LobbyIndex.Entry] = []
        var mine: [ConversationID] = []
        try members.forEach(withPrefix: user.bytes) { key, row in
            if row.isIn { mine.append(key.conversation) }
            return true
        }
        for id in mine { if let order = try rows.read(id, { $0?.order }) { result.append(LobbyIndex.Entry(order: order, conversation: id)) } }
        return result
    }
}
