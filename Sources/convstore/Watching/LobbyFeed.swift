import ConversationStore

/// Prints what `watch --user` finds.
struct LobbyFeed {
    let user: UserID
    let json: Bool
    /// What was printed of each conversation last: while an answer streams, what changes is mostly cut away.
    private var printed: [ConversationID: [String]] = [:]

    init(user: UserID, json: Bool) {
        self.user = user
        self.json = json
    }

    mutating func print(_ changes: [LobbyWatch.Change]) throws {
        for change in changes {
            switch change {
            case .row(let row):
                if json {
                    try JSONLine(row).print()
                } else {
                    let lines = LobbyView([row], of: user).lines(columns: Terminal.width, now: WallClock.milliseconds())
                    guard printed.updateValue(lines, forKey: row.conversation) != lines else { continue }
                    for line in lines { try StandardOutput.shared.writeLine(line) }
                }
            case .removed(let id):
                printed[id] = nil
                if json {
                    var line = JSONLine()
                    line.add("conversation_id", id.description)
                    line.add("removed", true)
                    try line.print()
                } else {
                    try StandardOutput.shared.writeLine(Style.dim("left \(id)"))
                }
            }
        }
    }
}
