import ConversationStore
import EventLog

/// Prints what `watch` of a conversation finds: rows for programs; for people a chat that goes on, in which a streamed answer types itself.
struct TimelineFeed {
    let conversation: ConversationID
    let json: Bool
    private var renderer: MessageRenderer?
    /// The message whose text is being typed, at the end of an open line.
    private var open: (seq: Seq, text: String)?
    private var readTo: [UserID: Seq] = [:]

    init(_ conversation: ConversationID, json: Bool) {
        self.conversation = conversation
        self.json = json
    }

    mutating func print(_ changes: [TimelineWatch.Change]) throws {
        if json {
            for change in changes { try line(change).print() }
            return
        }
        var renderer = renderer ?? MessageRenderer(columns: Terminal.width, now: WallClock.milliseconds(), lastSeq: 9999)
        defer { self.renderer = renderer }
        for change in changes { try show(change, &renderer) }
        if let receipts = changes.last?.receipts { try showReaders(receipts, isFirst: self.renderer == nil, &renderer) }
    }

    private func line(_ change: TimelineWatch.Change) -> JSONLine {
        guard change.isWithdrawn else { return JSONLine(change.message, in: conversation, change.receipts) }
        var line = JSONLine()
        line.add("conversation_id", conversation.description)
        line.add("message_id", change.message.id.description)
        line.add("removed", true)
        return line
    }

    mutating func finish() throws {
        if !json { try closeLine() }
    }

    private mutating func show(_ change: TimelineWatch.Change, _ renderer: inout MessageRenderer) throws {
        let message = change.message
        if change.isWithdrawn {
            try closeLine()
            try StandardOutput.shared.writeLine(Style.dim("↻ a message was withdrawn:"))
            renderer.breakOff()
            try whole(change, &renderer)
            renderer.breakOff()
            return
        }
        if let open, open.seq == message.seq, message.text.utf8.starts(with: open.text.utf8) {
            let more = String(decoding: message.text.utf8.dropFirst(open.text.utf8.count), as: UTF8.self)
            StandardOutput.shared.write(typed(more, renderer, after: open.text.unicodeScalars.last))
            self.open?.text = message.text
            if message.state == .streaming { return }
            try closeLine()
            if let ending = renderer.ending(message) { for line in renderer.note(ending) { try StandardOutput.shared.writeLine(line) } }
            return
        }
        if message.state == .streaming {
            // One that is typed no longer is shown when it has ended.
            guard change.before == nil else { return }
            try closeLine()
            for line in renderer.headings(message, isReply: true) { try StandardOutput.shared.writeLine(line) }
            StandardOutput.shared.write(renderer.side(message) + typed(message.text, renderer))
            open = (message.seq, message.text)
            return
        }
        guard let before = change.before else { return try whole(change, &renderer) }
        if before == message { return }
        let what = Self.change(from: before, to: message)
        try closeLine()
        try StandardOutput.shared.writeLine(Style.dim("↻ " + (message.unconfirmed == nil ? "@\(message.seq)" : "a message") + "\(what):"))
        renderer.breakOff()
        try whole(change, &renderer)
        renderer.breakOff()
    }

    private static func change(from before: Message, to message: Message) -> String {
        if before.unconfirmed != message.unconfirmed {
            return message.unconfirmed == nil ? " was sent" : message.unconfirmed == .pending ? " is sent again" : " was not accepted"
        }
        if before.failedWrites.count < message.failedWrites.count { return ", what was done to it was not accepted" }
        if before.failedWrites.count > message.failedWrites.count {
            return message.pendingWrites.count > before.pendingWrites.count ? ", what had failed is sent again" : ", what had failed was given up"
        }
        if before.text == message.text, before.state == message.state, before.reactions == message.reactions {
            return before.pendingWrites.count > message.pendingWrites.count ? ", what was done to it was sent" : " was changed"
        }
        if before.state == .streaming { return " ended" }
        if before.state == .deleted { return ", its deletion was withdrawn" }
        if message.state == .deleted { return " was deleted" }
        if message.state == .erased { return " was erased" }
        return before.text == message.text ? ", reactions" : " was edited"
    }

    private mutating func whole(_ change: TimelineWatch.Change, _ renderer: inout MessageRenderer) throws {
        try closeLine()
        let answers: Message?? = change.message.replyTo == nil ? nil : .some(change.answered)
        for line in renderer.lines(change.message, answers: answers) { try StandardOutput.shared.writeLine(line) }
    }

    private mutating func showReaders(_ receipts: Receipts, isFirst: Bool, _ renderer: inout MessageRenderer) throws {
        for mark in receipts.marks where mark.readTo > readTo[mark.user] ?? 0 {
            readTo[mark.user] = mark.readTo
            if isFirst { continue }
            try closeLine()
            for line in renderer.note("✓ \(mark.user) read up to @\(mark.readTo)") { try StandardOutput.shared.writeLine(line) }
        }
    }

    /// Further lines are indented like the first.
    private func typed(_ text: String, _ renderer: MessageRenderer, after before: Unicode.Scalar? = nil) -> String {
        TextWrap.harmless(text, after: before).split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "\n" + renderer.indent)
    }

    private mutating func closeLine() throws {
        if open != nil { try StandardOutput.shared.writeLine("") }
        open = nil
    }
}
