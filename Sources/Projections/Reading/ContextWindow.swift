public import EventLog

/// Says how many tokens a message costs a model.
public protocol TokenCounter: Sendable {
    func tokens(in message: Message) -> Int
}

/// An estimate, not a count: one token for four characters (bytes of UTF-8, rounded up), and four for what a model's wire puts around a message.
public struct FourCharacterEstimate: TokenCounter {
    public init() {}
    public func tokens(in message: Message) -> Int { Self.tokens(textBytes: message.text.utf8.count) }
    static func tokens(textBytes: Int) -> Int { (textBytes + 3) / 4 + 4 }
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
    /// Up to so many tokens a window is chosen in one reading: larger ones would lend the state for too long.
    package static let estimatedBudgetMax = 32_768

    /// The window that `FourCharacterEstimate` chooses: backwards by the sizes of texts alone, then forwards, so that each message is made once and in its
    /// place, and no other is made. `nil` if there is no such conversation.
    package func estimatedWindow(_ id: ConversationID, budget: Int, reserve: Int) throws -> ContextWindow? {
        try rows.lend(id) { row in
            let system = try systemMessage(id)
            let room = ContextWindow.room(budget, reserve)
            let left = room - (system.map { FourCharacterEstimate().tokens(in: $0) } ?? 0)
            let chosen = try chosen(id, row, left, system?.seq)
            let messages = try messages(chosen, id, row, system)
            return ContextWindow(
                messages: messages, tokens: room - chosen.left, range: chosen.range, system: system?.seq, seq: overlay?.confirmedSeq ?? row.pointee.seq,
                isOverBudget: left < 0)
        }
    }

    private struct Chosen {
        var left: Int
        var count = 0
        var range: ClosedRange<Seq>?
        /// The page of the first of them.
        var page: UInt64
    }

    private static func isInWindow(_ message: LentMessage, _ system: Seq?, _ overlay: OverlayMarks?) throws -> Bool {
        try message.seq != system && message.isForModel() && !overlay.isFailed(message.seq)
    }

    private func chosen(_ id: ConversationID, _ row: LentRow, _ left: Int, _ system: Seq?) throws -> Chosen {
        var chosen = Chosen(left: left, page: row.pointee.pages)
        var isFull = left < 0
        var costs: [(seq: Seq, tokens: Int)] = []
        costs.reserveCapacity(PageRow.messagesMax)
        while chosen.page > firstPage, !isFull {
            costs.removeAll(keepingCapacity: true)
            try readPage(chosen.page - 1, id, row) { [overlay] page in
                try page.forEach { message in
                    if try Self.isInWindow(message, system, overlay) { costs.append((message.seq, FourCharacterEstimate.tokens(textBytes: message.textBytes))) }
                    return true
                }
            }
            for (seq, tokens) in costs.reversed() {
                isFull = tokens > chosen.left
                if isFull { break }
                chosen.left -= tokens
                chosen.count += 1
                chosen.range = seq...(chosen.range?.upperBound ?? seq)
            }
            chosen.page -= 1
        }
        return chosen
    }

    private func messages(_ chosen: Chosen, _ id: ConversationID, _ row: LentRow, _ system: Message?) throws -> [Message] {
        var rest = system
        var result: [Message] = []
        result.reserveCapacity(chosen.count + 1)
        guard let range = chosen.range else { return system.map { [$0] } ?? [] }
        for number in chosen.page..<row.pointee.pages {
            try readPage(number, id, row) { [overlay] page in
                try page.forEach { message in
                    guard message.seq >= range.lowerBound, try Self.isInWindow(message, system?.seq, overlay) else { return true }
                    if let system = rest, system.seq < message.seq {
                        result.append(system)
                        rest = nil
                    }
                    try overlay.append(message, row, to: &result)
                    return true
                }
            }
        }
        if let rest { result.append(rest) }
        return result
    }
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
        try rows.lend(id) { row in
            var part = WindowPart(messages: [], next: nil, seq: overlay?.confirmedSeq ?? row.pointee.seq)
            guard row.pointee.pages > firstPage, var number = seq > row.pointee.seq ? row.pointee.pages - 1 : try page(of: seq, id, row),
                number >= firstPage
            else { return part }
            while true {
                part.next = try readPage(number, id, row) { [overlay] page in
                    var found: [Message] = []
                    try page.forEach { message in
                        if message.seq >= seq { return false }
                        if try message.isForModel(), !overlay.isFailed(message.seq) { try overlay.append(message, row, to: &found) }
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
        let systems = try rows.lend(id) { $0.pointee.systems } ?? []
        for seq in systems.reversed() { if seq > 0, let found = try systemMessage(id, at: seq) { return found } }
        // There were more than a row names, and none of those that it does is one.
        guard systems.first == 0, systems.count > 1 else { return nil }
        var before = systems[1]
        while let older = try rows.lend(id, { try systemMessages(id, $0, before: before) }) ?? nil {
            for seq in older.seqs.reversed() { if let found = try systemMessage(id, at: seq) { return found } }
            before = older.firstSeq
        }
        return nil
    }

    private func systemMessage(_ id: ConversationID, at seq: Seq) throws -> Message? {
        guard let found = try message(id, at: seq)?.message, !found.isStale, !overlay.isFailed(seq) else { return nil }
        return found.state != .deleted && found.state != .erased && (found.state != .streaming || !found.text.isEmpty) ? found : nil
    }

    /// The system messages of the page that ends before a seq, and that page's first seq; `nil` if there is none.
    private func systemMessages(_ id: ConversationID, _ row: LentRow, before seq: Seq) throws -> (seqs: [Seq], firstSeq: Seq)? {
        guard seq > 1, let number = try page(of: seq - 1, id, row), number >= firstPage else { return nil }
        return try readPage(number, id, row) { page in
            var seqs: [Seq] = []
            try page.forEach { message in
                if message.role == .system, message.seq < seq { seqs.append(message.seq) }
                return true
            }
            return (seqs, page.firstSeq)
        }
    }
}

extension ContextWindow {
    /// What the reserve leaves of the budget; none of them is less than 0.
    static func room(_ budget: Int, _ reserve: Int) -> Int { max(0, max(0, budget) - max(0, reserve)) }

    /// Chooses newest whole messages within `budget` less `reserve`, and always the system message. `read` is asked for the parts before a seq.
    package init?(
        system: Message?, first: WindowPart, budget: Int, reserve: Int, counter: some TokenCounter, read: (_ before: Seq, _ count: Int) throws -> WindowPart?
    ) rethrows {
        let room = ContextWindow.room(budget, reserve)
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

extension LentMessage {
    /// Whether there is something to show a model.
    func isForModel() throws -> Bool {
        switch try shownState() {
        case .deleted, .erased: false
        case .streaming: textBytes > 0
        case .complete, .interrupted, .pending, .failed: true
        }
    }
}
