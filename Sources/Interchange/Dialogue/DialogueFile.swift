import Crypto
public import EventLog

/// Reads conversations as `import --format dialogue` takes them (docs/EVENTS.md, "Dialogue"): a row a message, the rows of
/// one conversation together. Holds one conversation at a time.
public struct DialogueFile: ~Copyable {
    /// What a line of the file became.
    public struct Item: Hashable, Sendable {
        /// The line, counted physically from 1. A `conversation.created` has the line of its conversation's first row.
        public var line: Int
        public var outcome: Outcome

        public init(line: Int, outcome: Outcome) {
            self.line = line
            self.outcome = outcome
        }
    }

    public enum Outcome: Hashable, Sendable {
        /// An event, and its time in milliseconds since 1970.
        case event(Event, at: UInt64)
        /// A row that is none: `malformed` or `too_large` with the member's name. `log` is its conversation's if that is known.
        case refused(Refusal, log: LogID?)
    }

    private var lines: LineReader
    private var items: [Item] = []
    private var next = 0
    /// The first row of the next conversation, which ended the one before.
    private var pending: (line: Int, row: DialogueRow)?

    /// Reads `file` from its beginning. Throws `unreadable` if there is no memory to decompress.
    public init(_ file: consuming InputFile) throws(InputError) { lines = try LineReader(file) }

    /// Bytes of the file read so far, of ``bytesTotal``.
    public var bytesRead: Int { lines.bytesRead }
    public var bytesTotal: Int { lines.bytesTotal }

    /// The next event or refused row, in the order of lines; `nil` at the end. Throws `unreadable`, `damaged` or `truncated`.
    public mutating func nextItem() throws(InputError) -> Item? {
        if next == items.count {
            items.removeAll(keepingCapacity: true)
            next = 0
            try readConversation()
            guard !items.isEmpty else { return nil }
        }
        next += 1
        return items[next - 1]
    }

    private mutating func readConversation() throws(InputError) {
        var rows: [(line: Int, row: DialogueRow)] = []
        var refused: [Item] = []
        if let pending {
            rows.append(pending)
            self.pending = nil
        }
        while try lines.advance() {
            if lines.isBlank { continue }
            var conversation: [UInt8]?
            do throws(Refusal) {
                if lines.isTooLong { throw Refusal(.tooLarge, "line") }
                let row = try lines.withLine { (bytes) throws(Refusal) in try DialogueRow(bytes, conversation: &conversation) }
                if let first = rows.first, first.row.conversation != row.conversation {
                    pending = (lines.number, row)
                    break
                }
                rows.append((lines.number, row))
            } catch {
                let log = conversation.map { LogID.conversation(DialogueRow.conversationID($0)) }
                refused.append(Item(line: lines.number, outcome: .refused(error, log: log)))
                if rows.isEmpty { break }  // Nothing to wait for.
            }
        }
        guard !rows.isEmpty else { return items = refused }
        appendEvents(of: rows)
        guard !refused.isEmpty else { return }
        items = (items + refused).enumerated().sorted { ($0.element.line, $0.offset) < ($1.element.line, $1.offset) }.map(\.element)
    }

    private mutating func appendEvents(of rows: [(line: Int, row: DialogueRow)]) {
        let id = DialogueRow.conversationID(rows[0].row.conversation)
        var seen: Set<UserID> = []
        let participants = rows.map(\.row.author).filter { seen.insert($0).inserted }
        let isAssistant = rows.contains { $0.row.isMachine }
        let kind: Event.ConversationKind = isAssistant ? .assistant : participants.count <= 2 ? .direct : .group
        let title = String(decoding: rows[0].row.conversation, as: UTF8.self)
        var at = rows.lazy.compactMap(\.row.time).first ?? 0
        let created = Event.Content.conversationCreated(kind: kind, title: title, participants: participants)
        let author = rows[0].row.author
        items.append(
            Item(line: rows[0].line, outcome: .event(Event(conversation: id, author: author, content: created), at: rows[0].row.time ?? at))
        )
        for (line, row) in rows {
            at = row.time ?? at
            let message = Event.Message(
                id: DialogueRow.messageID(row.conversation, turn: row.turn), role: row.role, text: row.text,
                replyTo: row.replyTo.map { DialogueRow.messageID(row.conversation, turn: $0) })
            items.append(
                Item(line: line, outcome: .event(Event(conversation: id, author: row.author, content: .messageSent(message)), at: at)))
        }
    }
}
