package import EventLog

extension Conversations {
    /// A page of a user's conversations, newest first, after a cursor.
    package func lobby(of user: UserID, after cursor: LobbyCursor?, limit: Int) throws -> LobbyPage {
        let (entries, preferences, isMore) = try lobbies.read(user, make: { try self.makeLobby(of: user) }) { lobby in
            let end = Self.end(of: lobby.entries, before: cursor)
            let start = max(0, end - max(limit, 0))
            return (lobby.entries[start..<end], lobby.preferences, start > 0)
        }
        var result: [LobbyRow] = []
        result.reserveCapacity(entries.count)
        for entry in entries.reversed() {
            let preferences = preferences.isEmpty ? [:] : preferences[entry.conversation] ?? [:]
            if let row = try lobbyRow(entry.conversation, user, preferences) { result.append(row) }
        }
        return LobbyPage(rows: result, next: isMore ? result.last?.cursor : nil)
    }

    /// Where in a lobby's order a page ends that begins after a cursor.
    private static func end(of entries: ContiguousArray<LobbyIndex.Entry>, before cursor: LobbyCursor?) -> Int {
        var end = entries.count
        guard let cursor else { return end }
        let entry = LobbyIndex.Entry(order: cursor.order, conversation: cursor.conversation)
        var low = 0
        while low < end {
            let middle = (low + end) / 2
            if entries[middle] < entry { low = middle + 1 } else { end = middle }
        }
        return end
    }

    /// The same, with what overlays show in place of what they lie over.
    package func lobby(of user: UserID, after cursor: LobbyCursor?, limit: Int, under overlays: Overlays) throws -> LobbyPage {
        guard !overlays.isEmpty else { return try lobby(of: user, after: cursor, limit: limit) }
        let overlaid = try overlays.lobby(of: user, over: self)
        let limit = max(limit, 0)
        // One more of either than is asked for tells whether there are more.
        let (own, preferences) = try lobbies.read(user, make: { try self.makeLobby(of: user) }) { lobby in
            var place = Self.end(of: lobby.entries, before: cursor)
            var found: [LobbyIndex.Entry] = []
            while place > 0, found.count <= limit {
                place -= 1
                if !overlaid.covers(lobby.entries[place].conversation) { found.append(lobby.entries[place]) }
            }
            return (found, lobby.preferences)
        }
        var rows: [LobbyRow] = []
        var next = 0
        var place = Self.end(of: overlaid.entries, before: cursor)
        while rows.count < limit {
            if place > 0, next == own.count || own[next] < overlaid.entries[place - 1] {
                place -= 1
                let id = overlaid.entries[place].conversation
                if let row = try overlays.state(of: id, over: self).lobbyRow(id, user) { rows.append(row) }
            } else if next < own.count {
                if let row = try lobbyRow(own[next].conversation, user, preferences[own[next].conversation] ?? [:]) { rows.append(row) }
                next += 1
            } else {
                break
            }
        }
        return LobbyPage(rows: rows, next: next < own.count || place > 0 ? rows.last?.cursor : nil)
    }

    /// One conversation as a user's lobby shows it; `nil` if the user does not take part.
    package func lobbyRow(_ id: ConversationID, _ user: UserID) throws -> LobbyRow? {
        try lobbyRow(id, user, members.read(MemberKey(UserHash(user), id)) { $0.shown } ?? [:])
    }

    private func lobbyRow(_ id: ConversationID, _ user: UserID, _ preferences: Preferences) throws -> LobbyRow? {
        try rows.lend(id) { row -> LobbyRow? in
            guard let place = row.person(user), row.pointee.people[place].isIn || overlay?.failed[user] != nil else { return nil }
            // Made in its place: copies would count references to what readers on other cores are given too.
            var shown = LobbyRow(
                conversation: id, kind: row.pointee.kind, title: row.pointee.title.value, participants: row.pointee.participants,
                lastMessage: row.pointee.last.map { last in
                    LobbyRow.LastMessage(
                        id: last.id, seq: last.seq, author: row.pointee.people[Int(last.author)].user, role: last.role, state: last.state,
                        sentAt: last.sentAt, snippet: last.snippet)
                },
                unread: row.unread(of: place), preferences: preferences, order: row.pointee.order, unconfirmed: overlay?.unconfirmed(for: user))
            if let overlay, shown.lastMessage != nil { overlay.mark(&shown.lastMessage!) }
            return shown
        } ?? nil
    }

    private func makeLobby(of user: UserID) throws -> LobbyIndex.Lobby {
        var mine: [ConversationID] = []
        var lobby = LobbyIndex.Lobby(entries: [], preferences: [:])
        try members.forEach(withPrefix: UserHash(user).bytes) { key, row in
            if row.isIn { mine.append(key.conversation) }
            let shown = row.shown
            if !shown.isEmpty { lobby.preferences[key.conversation] = shown }
            return true
        }
        for id in mine {
            guard let order = try rows.lend(id, { $0.pointee.order }) else {
                throw EventLogError(.damaged, "conversation \(id) is missing from the projection \(Self.name); run `convstore rebuild`")
            }
            lobby.entries.append(LobbyIndex.Entry(order: order, conversation: id))
        }
        lobby.entries.sort()
        return lobby
    }
}

extension MemberRow {
    /// The preferences that are set.
    var shown: Preferences {
        Preferences(ascending: preferences.compactMap { pair in pair.value.value.map { Preferences.Element(key: pair.key, value: $0) } })
    }
}
