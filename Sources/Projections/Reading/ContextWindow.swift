public import EventLog

/// Says how many tokens a message costs a model.
public protocol TokenCounter: Sendable {
    func tokens(in message: Message) -> Int
}

/// An estimate, not a count: one token for four characters (bytes of UTF-8, rounded up), and four for what a model's wire puts around a message.
public struct FourCharacterEstimate: TokenCounter {
    public init() {}
    public func tokens(in message: Message) -> Int { (message.text.utf8.count + 3) / 4 + 4 }
}

/// The newest messages of a conversation that a model may be given.
public struct ContextWindow: Sendable, Hashable {
    /// Ascending; the system message first, if there is one.
    public var messages: [Message]
    /// What the counter says of them together; at most budget less reserve.
    public var tokens: Int
    /// The first and last seq that were chosen, apart from the system message; `nil` if none fitted.
    public var range: ClosedRange<Seq>?
    /// The seq of the system message, if there is one.
    public var system: Seq?
    /// The conversation's last seq when the window was chosen.
    public var seq: Seq
    /// Whether the system message alone is more than the budget.
    public var isOverBudget: Bool
}

extension Conversations {
    /// Newest whole messages within `budget` less `reserve`, and always the newest system message. Deleted and erased ones are left out, as are
    /// those that are streamed and have no text yet. Costs what the returned messages cost.
    package func window(_ id: ConversationID, budget: Int, reserve: Int, counter: some TokenCounter) throws -> ContextWindow? {
        guard let row = try rows.row(at: id) else { return nil }
        let room = max(0, budget - reserve)
        var system: Message?
        for seq in row.systems.reversed() where system == nil {
            // An erased one tells a model nothing.
            if let found = try message(id, at: seq)?.message, found.state != .erased, found.state != .streaming || !found.text.isEmpty { system = found }
        }
        var left = room - (system.map { counter.tokens(in: $0) } ?? 0)
        let isOverBudget = left < 0
        var chosen: [Message] = []
        var number = row.pages
        var isFull = isOverBudget
        while number > 0, !isFull {
            number -= 1
            try readPage(number, id) { page in
                var shown: [Message] = []
                try page.forEach { message in
                    if message.seq != system?.seq, message.isForModel { shown.append(Message(message, row)) }
                    return true
                }
                for message in shown.reversed() {
                    let cost = counter.tokens(in: message)
                    guard cost <= left else {
                        isFull = true
                        return
                    }
                    left -= cost
                    chosen.append(message)
                }
            }
        }
        chosen.reverse()
        let range = chosen.first.map { $0.seq...chosen.last!.seq }
        if let system { chosen.insert(system, at: chosen.firstIndex { $0.seq > system.seq } ?? chosen.count) }
        return ContextWindow(messages: chosen, tokens: room - left, range: range, system: system?.seq, seq: row.seq, isOverBudget: isOverBudget)
    }
}

extension MessageRow {
    /// Whether there is something to show a model.
    var isForModel: Bool {
        switch shownState {
        case .deleted, .erased: false
        case .streaming: !text.isEmpty
        case .complete, .interrupted: true
        }
    }
}
