import EventLog
import FoundationEssentials
import Interchange

/// All that a peer shows after some events, as JSON lines that `check_state.py` compares with fold.py's.
public struct StateDump {
    /// A line: a conversation's timeline or a user's lobby, with fold.py's field names.
    private struct Line: Encodable {
        var conversation: String?
        var user: String?
        var timeline: [Message]?
        var lobby: [Conversation]?
    }

    private struct Message: Encodable, Equatable {
        var conversationId, messageId: String
        var seq: Seq
        var author, role, text, state: String
        var edited: Bool
        var chunks: UInt32
        var replyTo: String?
        var sentAt: String
        var finishReason, interruptedReason: String?
        /// Emoji and user, in turn: a dictionary's keys would be changed with the names of fields.
        var reactions: [[String]]
        var deliveredTo, readBy: [String]
    }

    private struct Conversation: Encodable {
        var conversationId, kind: String
        var title: String?
        var participants: [String]
        var lastMessage: Last?
        var unread: UInt64
        var preferences: [[String]]
    }

    private struct Last: Encodable {
        var messageId: String
        var seq: Seq
        var author, role, state, sentAt, snippet: String
    }

    private let encoder = JSONEncoder()
    private let reader: any PeerReader

    private init(_ reader: any PeerReader) {
        self.reader = reader
        encoder.keyEncodingStrategy = .convertToSnakeCase
    }

    /// How the state comes to be.
    public enum Way: String, Sendable, CaseIterable {
        /// With each append.
        case append
        /// Built anew from the event rows.
        case build
        /// Built anew the simple way, by an engine that has one.
        case replay
    }

    /// Appends the events, `batch` a commit, and shows every timeline and every lobby.
    public static func lines(
        of kind: StateEngineKind, _ items: [Item], batch: Int, way: Way, directory: String, _ body: (String) -> Void
    ) throws {
        let engine = try kind.open(directory: directory, isDurable: false)
        for at in stride(from: 0, to: items.count, by: batch) { try engine.append(items[at..<min(items.count, at + batch)]) }
        if way != .append { try engine.dropState() }
        switch way {
        case .append: break
        case .build: try engine.buildState()
        case .replay:
            guard let engine = engine as? any ReplayEngine else { throw EngineError("\(kind.rawValue) has no simple way") }
            try engine.replayState()
        }
        guard let reader = try engine.reader() as? any PeerReader else { throw EngineError("\(kind.rawValue) does not show its values") }
        let dump = StateDump(reader)
        for conversation in Set(items.map(\.event.conversation)) { body(try dump.timeline(conversation)) }
        for user in Set(items.flatMap(\.event.users)) { body(try dump.lobby(user)) }
        try reader.close()
        try engine.close()
    }

    private func line(_ line: Line) throws -> String { String(decoding: try encoder.encode(line), as: UTF8.self) }

    private func timeline(_ id: ConversationID) throws -> String {
        let page = try reader.page(of: id, limit: .max)
        // One by one they must be the same as in the page.
        let single = try page.rows.map { row in
            let found = try reader.message(in: id, seq: row.seq)
            return message(found.rows[0], of: found, id)
        }
        let rows = page.rows.map { message($0, of: page, id) }
        guard rows == single else { throw EngineError("a message differs from its page") }
        return try line(Line(conversation: id.description, timeline: rows))
    }

    private func message(_ row: TimelineRow, of page: TimelinePage, _ id: ConversationID) -> Message {
        Message(
            conversationId: id.description, messageId: row.id.description, seq: row.seq, author: row.author.string, role: "\(row.role)",
            text: row.text, state: "\(row.state)", edited: row.isEdited, chunks: row.chunks, replyTo: row.replyTo?.description,
            sentAt: Timestamp.string(row.sentAt), finishReason: row.finishReason, interruptedReason: row.interruptedReason,
            reactions: row.reactions.map { [$0.emoji, $0.user.string] },
            deliveredTo: page.users(\.delivered, reached: row).map(\.string), readBy: page.users(\.read, reached: row).map(\.string))
    }

    private func lobby(_ user: UserID) throws -> String {
        let rows = try reader.lobby(of: user, limit: .max).map { row in
            Conversation(
                conversationId: row.conversation.description, kind: "\(row.kind)", title: row.title,
                participants: try reader.participants(of: row.conversation).map(\.string).sorted(), lastMessage: row.last.map(last),
                unread: row.unread, preferences: row.preferences.map { [$0.key, $0.value] })
        }
        return try line(Line(user: user.string, lobby: rows))
    }

    private func last(_ message: LastMessage) -> Last {
        Last(
            messageId: message.id.description, seq: message.seq, author: message.author.string, role: "\(message.role)",
            state: "\(message.state)", sentAt: Timestamp.string(message.sentAt), snippet: message.snippet)
    }
}

extension Event {
    /// Whose lobbies it may concern.
    var users: [UserID] {
        switch content {
        case .conversationCreated(_, _, let participants): [author] + participants
        case .participantJoined(let user), .participantLeft(let user): [author, user]
        default: [author]
        }
    }
}
