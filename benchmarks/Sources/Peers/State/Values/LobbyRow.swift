import EventLog

/// A conversation in a user's list: fold.py's lobby row, but for the participants, which a list of chats does not show.
struct LobbyRow: Sendable {
    var conversation: ConversationID
    var kind: Event.ConversationKind
    var title: String?
    var last: LastMessage?
    var unread: UInt64
    /// The user's own, those that are set, in order of their keys' bytes.
    var preferences: [Preference]
}

/// A preference's current value.
struct Preference: Sendable {
    var key: String
    var value: String
}

/// The end of a conversation as its lobby row shows it.
struct LastMessage: Sendable {
    static let snippetCharactersMax = 120

    var id: MessageID
    var seq: Seq
    var author: UserID
    var role: Event.Role
    var state: MessageState
    var sentAt: UInt64
    var snippet: String

    /// The first 120 characters, as fold.py counts them: Unicode scalars.
    static func snippet(of text: String) -> String {
        // So few bytes cannot be more characters; it spares most texts the walk.
        if text.utf8.count <= snippetCharactersMax { return text }
        return String(text.unicodeScalars.prefix(snippetCharactersMax))
    }
}

extension [LobbyRow] {
    var sum: ReadSum {
        var sum = ReadSum(rows: count)
        for row in self {
            sum.bytes += Int(row.unread) + (row.title?.utf8.count ?? 0) + (row.last?.snippet.utf8.count ?? 0) + row.preferences.count
        }
        return sum
    }
}
