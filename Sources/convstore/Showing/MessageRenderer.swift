import ConversationStore
import Interchange

/// Messages as lines for people, one after the other: what follows its author's last words closely needs no heading of its own.
struct MessageRenderer {
    /// Lines of text that are longer than this are hard to read, however wide the terminal is.
    private static let readableColumns = 110
    /// From so many columns on there is room for the seqs at the side.
    private static let gutterFrom = 40
    private static let closeMilliseconds: UInt64 = 5 * 60_000
    /// Reasons for which answers end as they should.
    private static let goodEnds: Set<String> = ["stop", "STOP", "end_turn", "message_stop", "[DONE]", "response.completed", "tool_calls"]

    let columns: Int
    private let now: LocalTime
    private let gutter: Int
    private var last: (author: UserID, role: Event.Role, sentAt: UInt64)?
    private var day: Int?

    /// `lastSeq`: the highest seq that will be shown, which sets the width of the side.
    init(columns: Int, now: UInt64, lastSeq: Seq) {
        self.columns = max(columns, 20)
        self.now = LocalTime(now)
        gutter = columns >= Self.gutterFrom ? max(String(lastSeq).utf8.count, 2) + 2 : 2
    }

    private var hasSeqs: Bool { columns >= Self.gutterFrom }
    private var room: Int { min(columns, Self.readableColumns) - gutter }
    /// What stands before each line but the first.
    var indent: String { String(repeating: " ", count: gutter) }

    /// What stands before a message's first line.
    func side(_ message: Message) -> String {
        let label = hasSeqs && message.unconfirmed == nil ? "@\(message.seq)" : ""
        return Style.dim(label) + String(repeating: " ", count: max(1, gutter - label.utf8.count))
    }

    /// `answers`: `nil` if it answers none, and `.some(nil)` if it answers one that is not here.
    mutating func lines(_ message: Message, answers: Message?? = nil) -> [String] {
        var result = headings(message, isReply: answers != nil)
        if let answers { result.append(indent + Style.dim(DisplayWidth.cut(quote(answers), to: room))) }
        for (index, line) in body(message).enumerated() {
            result.append((index == 0 ? side(message) : line.isEmpty ? "" : indent) + line)
        }
        return result + reactions(message).map { indent + $0 }
    }

    /// What is said about the message before.
    func note(_ text: String) -> [String] { [indent + Style.dim(DisplayWidth.cut(TextWrap.oneLine(text), to: room))] }

    /// The day, if it is another, and the author, unless the message follows closely.
    mutating func headings(_ message: Message, isReply: Bool = false) -> [String] {
        var result: [String] = []
        let time = LocalTime(message.sentAt)
        if day != time.day {
            day = time.day
            last = nil
            result.append(separator(time.dayTitle(now: now)))
        }
        if hasSeqs, !isReply, let last, last.author == message.author, last.role == message.role, message.sentAt >= last.sentAt,
            message.sentAt - last.sentAt < Self.closeMilliseconds
        {
            self.last?.sentAt = message.sentAt
            return result
        }
        if last != nil { result.append("") }
        last = (message.author, message.role, message.sentAt)
        let seq = hasSeqs || message.unconfirmed != nil ? "" : " @\(message.seq)"
        let role = message.role == .system || message.role == .tool ? " (\(message.role.jsonName))" : ""
        let author = DisplayWidth.cut(TextWrap.oneLine(message.author.string) + role, to: max(columns - 7 - seq.utf8.count, 8))
        return result + [(message.role == .user ? Style.bold(author) : Style.cyan(author)) + "  " + Style.dim(time.clock + seq)]
    }

    /// The next message gets a heading in any case.
    mutating func breakOff() { last = nil }

    /// How a message ended, if that is worth a word.
    func ending(_ message: Message) -> String? {
        switch message.state {
        case .interrupted: "⏹ interrupted" + (message.interruptedReason.map { ": " + TextWrap.oneLine($0) } ?? "")
        case .complete:
            message.finishReason.flatMap { Self.goodEnds.contains($0) ? nil : "ended: " + TextWrap.oneLine($0) }
        default: nil
        }
    }

    private func separator(_ title: String) -> String {
        let left = max(2, (min(columns, Self.readableColumns) - DisplayWidth.of(title) - 2) / 2)
        let bar = String(repeating: "─", count: left)
        return Style.dim(DisplayWidth.cut("\(bar) \(title) \(bar)", to: columns))
    }

    private func quote(_ message: Message?) -> String {
        guard let message else { return "│ (a message that is not here)" }
        let text =
            switch message.state {
            case .deleted: "(deleted)"
            case .erased: "(erased)"
            default: TextWrap.oneLine(String(message.text.prefix(400)))
            }
        return "│ \(TextWrap.oneLine(message.author.string)): \(text)"
    }

    private func body(_ message: Message) -> [String] {
        switch message.state {
        case .deleted: return [Style.dim(message.pendingWrites.contains(.messageDeleted) ? "(deleted) \(Unconfirmed.pending.word)" : "(deleted)")]
        case .erased: return [Style.dim("(erased)")]
        default: break
        }
        var text = TextWrap.harmless(message.text)
        while text.utf8.last == 0x0A { text.removeLast() }
        var lines = text.isEmpty ? [] : TextWrap.lines(text, columns: room)
        func add(_ word: String, _ style: Style) {
            if let last = lines.last, DisplayWidth.of(last) + 1 + DisplayWidth.of(word) <= room, lines.count > (text.isEmpty ? 1 : 0) {
                lines[lines.count - 1] = last + " " + style(word)
            } else {
                lines.append(style(DisplayWidth.cut(word, to: room)))
            }
        }
        if let parts = message.details?.parts { lines.append(Style.dim(Self.attachments(parts))) }
        if message.state == .streaming { add("…", .cyan) }
        if lines.isEmpty { lines.append(Style.dim("(no text)")) }
        if message.isEdited { add("(edited)", .dim) }
        if let unconfirmed = message.unconfirmed { add(unconfirmed.word, unconfirmed == .pending ? .dim : .red) }
        if !message.pendingWrites.isEmpty { add(Unconfirmed.pending.word, .dim) }
        for write in message.failedWrites { add("(\(write.kind.name) failed: \(write.refusal.code.rawValue))", .red) }
        if message.isStale { add("(may have changed)", .dim) }
        if let ending = ending(message) { lines.append(Style.dim(DisplayWidth.cut(ending, to: room))) }
        return lines
    }

    /// `parts` is a JSON array in canonical form: the commas on its first level tell how many they are.
    private static func attachments(_ parts: String) -> String {
        var depth = 0
        var count = parts.utf8.count > 2 ? 1 : 0
        var isString = false
        var isEscaped = false
        for byte in parts.utf8 {
            if isEscaped {
                isEscaped = false
                continue
            }
            switch byte {
            case UInt8(ascii: "\\"): isEscaped = isString
            case UInt8(ascii: "\""): isString.toggle()
            case _ where isString: break
            case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            case UInt8(ascii: ","): if depth == 1 { count += 1 }
            default: break
            }
        }
        return count == 1 ? "[1 attachment]" : "[\(count) attachments]"
    }

    private func reactions(_ message: Message) -> [String] {
        guard !message.reactions.isEmpty, message.state != .deleted else { return [] }
        let all = message.reactions.map { reaction in
            let names = reaction.users.map { TextWrap.oneLine($0.string) }.joined(separator: ", ")
            return Sanitizer.harmless(reaction.emoji) + " "
                + (reaction.users.count <= 3 && DisplayWidth.of(names) <= room / 2 ? names : "\(reaction.users.count)")
        }
        return TextWrap.lines(all.joined(separator: "   "), columns: room).map { Style.dim($0) }
    }
}
