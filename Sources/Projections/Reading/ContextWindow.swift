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

/// What a window is chosen from: read in parts, so that no counter runs while the state is lent.
package struct WindowPart: Sendable {
    /// Newest first; those that have something to show a model.
    package var messages: [Message]
    /// From where the next part is to be read; `nil` after the oldest.
    package var next: Seq?
    /// The conversation's last seq.
    package var seq: Seq
}

extension Conversations {
    /// Messages before a seq; at least `count` of them unless there are fewer.
    package func windowPart(_ id: ConversationID, before seq: Seq, count: Int) throws -> WindowPart? {
        try rows.read(id) { row in
            var part = WindowPart(messages: [], next: nil, seq: overlay?.confirmedSeq ?? row.seq)
            guard row.pages > firstPage, var number = seq > row.seq ? row.pages - 1 : try page(of: seq, id, row), number >= firstPage else { return part }
            while true {
                part.next = try readPage(number, id, row) { page in
                    var found: [Message] = []
                    try page.forEach { message in
                        if message.seq >= seq { return false }
                        if message.isForModel, !isFailed(message.seq) { found.append(try shown(message, row)) }
                        return true
                    }
                    part.messages += found.reversed()
                    return page.firstSeq
                }
                if number == firstPage { part.next = nil }
                if number == firstPage || part.messages.count >= count { return part }
                number -= 1
            }
        }
    }

    /// The newest system message that can be shown a model.
    package func systemMessage(_ id: ConversationID) throws -> Message? {
        let systems = try rows.read(id) { $0.systems } ?? []
        for seq in systems.reversed() {
            guard let found = try message(id, at: seq)?.message, !found.isStale, !isFailed(seq) else { continue }
            if found.state != .erased, found.state != .streaming || !found.text.isEmpty { return found }
        }
        return nil
    }
}

extension ContextWindow {
    /// Chooses newest whole messages within `budget` less `reserve`, and always the system message. `read` is asked for the parts before a seq.
    package init?(
        system: Message?, first: WindowPart, budget: Int, reserve: Int, counter: some TokenCounter, read: (_ before: Seq, _ count: Int) throws -> WindowPart?
    ) rethrows {
        let room = max(0, budget - reserve)
        var left = room - (system.map { counter.tokens(in: $0) } ?? 0)
        isOverBudget = left < 0
        var chosen: [Message] = []
        var part: WindowPart? = isOverBudget ? nil : first
        while let current = part {
            part = nil
            var isFull = false
            for message in current.messages where message.seq != system?.seq {
                let cost = counter.tokens(in: message)
                guard cost <= left else {
                    isFull = true
                    break
                }
                left -= cost
                chosen.append(message)
            }
            if !isFull, let next = current.next { part = try read(next, max(32, chosen.count)) }
        }
        chosen.reverse()
        range = chosen.first.map { $0.seq...chosen.last!.seq }
        if let system { chosen.insert(system, at: chosen.firstIndex { $0.seq > system.seq } ?? chosen.count) }
        messages = chosen
        tokens = room - left
        self.system = system?.seq
        seq = first.seq
    }
}

extension MessageRow {
    /// Whether there is something to show a model.
    var isForModel: Bool {
        switch shownState {
        case .deleted, .erased: false
        case .streaming: !text.isEmpty
        case .complete, .interrupted, .pending, .failed: true
        }
    }
}
