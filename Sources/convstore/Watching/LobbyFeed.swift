import ConversationStore

/// Prints what `watch --user` finds.
struct LobbyFeed {
    let user: UserID
    let json: Bool

    func print(_ changes: [LobbyWatch.Change]) throws {
        for change in changes {
            switch change {
            case .row(let row):
                if json { try JSONLine(row).print() } else { try LobbyView([row], of: user).print() }
            case .removed(let id):
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
