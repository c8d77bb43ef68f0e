import ConversationStore
import EventLog

/// A chat list for people: two lines a conversation.
struct LobbyView {
    /// From so many columns on there is room for as much of the ids as is shown elsewhere.
    private static let idsFrom = 48

    /// What marks leave of a title, and ids where the terminal is narrow.
    private static let titleColumns = 10

    let rows: [LobbyRow]
    let user: UserID

    init(_ rows: [LobbyRow], of user: UserID) {
        self.rows = rows
        self.user = user
    }

    func print() throws {
        for line in lines(columns: Terminal.width, now: WallClock.milliseconds()) { try StandardOutput.shared.writeLine(line) }
    }

    func lines(columns: Int, now: UInt64) -> [String] {
        let columns = max(columns, 20)
        let now = LocalTime(now)
        let ids = columns >= Self.idsFrom ? shortIDs([8, 13, 18, 23, 36]) : narrowIDs(columns, now)
        let side = ids.first.map { $0.utf8.count + 2 } ?? 0
        return rows.enumerated().flatMap { index, row in
            let time = time(row, now)
            let isNew = row.unread > 0
            let badge = isNew ? (row.unread > 999 ? "999+" : String(row.unread)) : ""
            let room = columns - side
            // Where there is hardly room for the title, that is what is shown.
            let all = marks(row)
            let marks = room - DisplayWidth.of(time) - all.utf8.count - 3 >= Self.titleColumns ? all : ""
            let titleRoom = max(room - DisplayWidth.of(time) - 2 - (marks.isEmpty ? 0 : marks.utf8.count + 1), 6)
            let title = DisplayWidth.cut(title(row), to: titleRoom)
            let first = (isNew ? Style.bold(title) : title) + (marks.isEmpty ? "" : " " + Style.dim(marks))
            let firstWidth = DisplayWidth.of(title) + (marks.isEmpty ? 0 : marks.utf8.count + 1)
            // The badge stands in brackets where there are no colours.
            let badgeText = badge.isEmpty ? "" : Terminal.hasColours ? " \(badge) " : "(\(badge))"
            let (words, style) = words(row)
            let second = DisplayWidth.cut(words, to: room - (badgeText.isEmpty ? 0 : badgeText.utf8.count + 1))
            let id = ids.isEmpty ? "" : Style.dim(ids[index]) + "  "
            return [
                id + first + spaces(room - firstWidth - DisplayWidth.of(time)) + (isNew ? Style.green(time) : Style.dim(time)),
                spaces(side) + (style.map { $0(second) } ?? second)
                    + (badgeText.isEmpty ? "" : spaces(room - DisplayWidth.of(second) - badgeText.utf8.count) + Style.badge(badgeText)),
            ]
        }
    }

    private func spaces(_ count: Int) -> String { String(repeating: " ", count: max(count, 0)) }

    private func time(_ row: LobbyRow, _ now: LocalTime) -> String {
        LocalTime(row.lastMessage?.sentAt ?? row.order.milliseconds).short(now: now)
    }

    /// As much of each id as tells it from the others here; none if no length does.
    private func shortIDs(_ lengths: [Int]) -> [String] {
        let all = rows.map(\.conversation.description)
        for length in lengths where Set(all.map { $0.prefix(length) }).count == all.count { return all.map { String($0.prefix(length)) } }
        return []
    }

    /// Ids by which a conversation can be named at all, if they leave room for its title. One that others' ids begin with too is refused with a list of those.
    private func narrowIDs(_ columns: Int, _ now: LocalTime) -> [String] {
        let ids = shortIDs([4, 6, 8])
        let times = rows.map { time($0, now).utf8.count }.max() ?? 0
        return columns - (ids.first?.utf8.count ?? 0) - 2 - times - 2 >= Self.titleColumns ? ids : []
    }

    private func title(_ row: LobbyRow) -> String {
        let title = TextWrap.oneLine(row.title ?? "")
        if !title.isEmpty { return title }
        let others = row.participants.filter { $0 != user }
        return others.isEmpty ? "You alone" : others.map { TextWrap.oneLine($0.string) }.joined(separator: ", ")
    }

    private func marks(_ row: LobbyRow) -> String {
        ["pinned", "muted", "archived"].filter { key in
            guard let value = row.preferences[key] else { return false }
            return !["", "0", "false"].contains(value)
        }.joined(separator: " ")
    }

    /// What was said last, or is being written. What a message waits for comes first: the end of a line may be cut.
    private func words(_ row: LobbyRow) -> (String, Style?) {
        if let draft = row.preferences["draft"], !draft.isEmpty { return ("Draft: " + TextWrap.oneLine(draft), .red) }
        guard let last = row.lastMessage else { return (row.unconfirmed.map { "No messages yet \($0.word)" } ?? "No messages yet", .dim) }
        let isOwn = last.author == user
        let needsName = row.kind == .group || row.participants.count > 2 || last.role == .system || last.role == .tool
        let who = isOwn ? "You: " : needsName ? TextWrap.oneLine(last.author.string) + ": " : ""
        let name = last.pendingWrites.isEmpty ? who : who + Unconfirmed.pending.word + " "
        let snippet = TextWrap.oneLine(last.snippet)
        if case .failed? = row.unconfirmed, last.state != .failed { return (row.unconfirmed!.word + " " + name + snippet, .red) }
        return switch last.state {
        case .deleted: (name + "(deleted)", .dim)
        case .erased: (name + "(erased)", .dim)
        case .streaming: (name + (snippet.isEmpty ? "…" : snippet + " …"), .cyan)
        case .interrupted: (name + snippet + " ⏹", .dim)
        case .pending, .failed: (name + (last.unconfirmed.map { "\($0.word) " } ?? "") + snippet, last.state == .failed ? .red : .dim)
        case .complete: (name + (snippet.isEmpty ? "(no text)" : snippet), row.unread > 0 ? nil : .dim)
        }
    }
}
