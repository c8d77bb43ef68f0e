import ConversationStore
import EventLog

/// A conversation for people.
struct ChatView {
    let chat: Chat

    init(_ chat: Chat) { self.chat = chat }

    func print() throws {
        for line in lines(columns: Terminal.width, now: WallClock.milliseconds()) { try StandardOutput.shared.writeLine(line) }
    }

    func lines(columns: Int, now: UInt64) -> [String] {
        var result = heading(columns)
        if chat.hasBefore, let first = chat.messages.first { result.append(Style.dim("↑ older: --before \(first.seq)")) }
        var renderer = MessageRenderer(columns: columns, now: now, lastSeq: chat.messages.last?.seq ?? 0)
        let readers = readers()
        var hole = chat.hole
        for message in chat.messages {
            if let missing = hole, message.seq > missing.upperBound {
                result += renderer.note(Self.missing(missing))
                hole = nil
            }
            result += renderer.lines(message, answers: message.replyTo.map { chat.answered[$0] })
            if let names = readers[message.seq] { result += renderer.note("✓ read by " + names.map(\.string).joined(separator: ", ")) }
        }
        if let hole { result += renderer.note(Self.missing(hole)) }
        if chat.messages.isEmpty { result.append(Style.dim("No messages.")) }
        if chat.hasAfter, let last = chat.messages.last { result.append(Style.dim("↓ newer: --after \(last.seq)")) }
        return result
    }

    private static func missing(_ hole: ClosedRange<Seq>) -> String { "┄ @\(hole.lowerBound) to @\(hole.upperBound) are not here yet ┄" }

    private func heading(_ columns: Int) -> [String] {
        let id = chat.conversation.description.prefix(8)
        guard let row = chat.row else { return [Style.bold(DisplayWidth.cut("Conversation \(id)", to: columns))] }
        let people = row.participants.map { TextWrap.oneLine($0.string) }.joined(separator: ", ")
        let title = row.title.map { TextWrap.oneLine($0) } ?? ""
        let about = title.isEmpty ? "\(id) · \(row.kind.jsonName)" : "\(id) · \(row.kind.jsonName) · \(people)"
        return [Style.bold(DisplayWidth.cut(title.isEmpty ? people : title, to: columns)), Style.dim(DisplayWidth.cut(about, to: columns))]
    }

    /// Under which message it is said that somebody read so far: the last that is another's, unless the reader wrote behind it.
    private func readers() -> [Seq: [UserID]] {
        var result: [Seq: [UserID]] = [:]
        for mark in chat.receipts.marks {
            guard let last = chat.messages.last(where: { $0.seq <= mark.readTo }), last.author != mark.user else { continue }
            if chat.messages.contains(where: { $0.seq > mark.readTo && $0.author == mark.user }) { continue }
            result[last.seq, default: []].append(mark.user)
        }
        return result
    }
}
