import ConversationStore
import Foundation
import Interchange
import Testing

/// A text that is compared by its bytes.
struct Text: Decodable, Hashable {
    let bytes: [UInt8]
    init(_ string: String) { bytes = Array(string.utf8) }
    init(from decoder: any Decoder) throws { self.init(try decoder.singleValueContainer().decode(String.self)) }
}

/// What the model says of every screen (Tests/Fixtures/tools/screens.py).
struct Screens {
    struct TimelineRow: Decodable, Hashable {
        var conversationId: Text, messageId: Text, seq: UInt64, author: Text, role: Text, text: Text, state: Text, edited: Bool, chunks: UInt32
        var replyTo: Text?, sentAt: Text, finishReason: Text?, interruptedReason: Text?, reactions: [String: [Text]], deliveredTo: [Text], readBy: [Text]
    }

    struct LastMessage: Decodable, Hashable { var messageId: Text, seq: UInt64, author: Text, role: Text, state: Text, sentAt: Text, snippet: Text }

    struct LobbyRow: Decodable, Hashable {
        var conversationId: Text, kind: Text, title: Text?, participants: [Text], lastMessage: LastMessage?, unread: UInt64, preferences: [String: Text]
    }

    private struct Rows<Row: Decodable>: Decodable { var rows: [Row] }
    private struct Name: Decodable { var timeline: String?, lobby: String? }

    private(set) var timelines: [(ConversationID, [TimelineRow])] = []
    private(set) var lobbies: [(UserID, [LobbyRow])] = []

    init(_ path: String) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        var lines = try LineReader(InputFile.open(path))
        while try lines.advance() {
            let line = lines.withLine { Data($0) }
            let name = try decoder.decode(Name.self, from: line)
            if let id = name.timeline {
                timelines.append((try #require(ConversationID(id)), try decoder.decode(Rows<TimelineRow>.self, from: line).rows))
            } else {
                let user = try #require(name.lobby.flatMap { UserID($0) })
                lobbies.append((user, try decoder.decode(Rows<LobbyRow>.self, from: line).rows))
            }
        }
    }

    /// Compares each screen of a store with the model's, field by field.
    func check(_ store: ConversationStore, _ when: Comment, sourceLocation: SourceLocation = #_sourceLocation) throws {
        #expect(!timelines.isEmpty && !lobbies.isEmpty, sourceLocation: sourceLocation)
        for (id, expected) in timelines {
            let page = try #require(try store.timeline(of: id, limit: .max), when, sourceLocation: sourceLocation)
            Self.compare(page.messages.map { TimelineRow($0, page) }, expected, "\(when): timeline \(id)", sourceLocation)
        }
        for (user, expected) in lobbies {
            let rows = try store.lobby(of: user, limit: .max).rows
            Self.compare(rows.map { LobbyRow($0) }, expected, "\(when): lobby of \(user)", sourceLocation)
        }
    }

    private static func compare<Row: Hashable>(_ got: [Row], _ expected: [Row], _ what: Comment, _ sourceLocation: SourceLocation) {
        #expect(got.count == expected.count, what, sourceLocation: sourceLocation)
        for (place, (got, expected)) in zip(got, expected).enumerated() where got != expected {
            let fields = zip(Mirror(reflecting: got).children, Mirror(reflecting: expected).children)
                .filter { "\($0.value)" != "\($1.value)" }.map { "\($0.label ?? "") is \($0.value), the model has \($1.value)" }
            Issue.record("\(what): row \(place): \(fields.joined(separator: "; "))", sourceLocation: sourceLocation)
            return
        }
    }
}

extension Screens.TimelineRow {
    init(_ message: Message, _ page: TimelinePage) {
        self.init(
            conversationId: Text(page.conversation.description), messageId: Text(message.id.description), seq: message.seq, author: Text(message.author.string),
            role: Text("\(message.role)"), text: Text(message.text), state: Text("\(message.state.name)"), edited: message.isEdited, chunks: message.chunks,
            replyTo: (message.replyTo?.description).map(Text.init), sentAt: Text(Timestamp.string(message.sentAt)),
            finishReason: message.finishReason.map(Text.init), interruptedReason: message.interruptedReason.map(Text.init),
            reactions: Dictionary(uniqueKeysWithValues: message.reactions.map { ($0.emoji, $0.users.map { Text($0.string) }) }),
            deliveredTo: page.receipts.deliveredTo(message).map { Text($0.string) }, readBy: page.receipts.readBy(message).map { Text($0.string) })
    }
}

extension Screens.LobbyRow {
    init(_ row: LobbyRow) {
        let last = row.lastMessage.map {
            Screens.LastMessage(
                messageId: Text($0.id.description), seq: $0.seq, author: Text($0.author.string), role: Text("\($0.role)"), state: Text("\($0.state.name)"),
                sentAt: Text(Timestamp.string($0.sentAt)), snippet: Text($0.snippet))
        }
        self.init(
            conversationId: Text(row.conversation.description), kind: Text("\(row.kind)"), title: row.title.map(Text.init),
            participants: row.participants.map { Text($0.string) }, lastMessage: last, unread: row.unread, preferences: row.preferences.mapValues(Text.init))
    }
}

/// A file of events as it is imported.
struct Feed {
    private(set) var submissions: [Submission] = []

    init(_ path: String) throws {
        var origins = ImportOrigins(digest: try InputFile.open(path).contentDigest())
        var lines = try LineReader(InputFile.open(path))
        var decoder = EventLineDecoder()
        while try lines.advance() {
            if lines.isBlank || lines.isTooLong { continue }
            do throws(Refusal) {
                let line = try decoder.decode(lines.withLine { Array($0) })
                submissions.append(Submission(line.event, origin: line.origin ?? origins.origin(in: line.event.log, at: line.at)))
            } catch {
                if let log = decoder.log { origins.count(log) }
            }
        }
    }
}

/// The files in Tests/Fixtures.
enum Fixtures {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fixtures").path(percentEncoded: false)
}
