import ConversationStore

/// Prints what `watch` of a conversation finds.
struct TimelineFeed {
    let conversation: ConversationID
    let json: Bool

    init(_ conversation: ConversationID, json: Bool) {
        self.conversation = conversation
        self.json = json
    }

    mutating func print(_ changes: [TimelineWatch.Change]) throws {
        for change in changes {
            if json {
                try JSONLine(change.message, in: conversation, change.receipts).print()
            } else {
                try StandardOutput.shared.writeLine(Sanitizer.harmless("\(change.message.author): \(change.message.text)"))
            }
        }
    }

    mutating func finish() throws {}
}
