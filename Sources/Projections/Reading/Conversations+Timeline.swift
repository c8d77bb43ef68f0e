public import EventLog

/// Which messages of a conversation are wanted.
public enum TimelineRange: Sendable, Hashable {
    case newest
    /// Those before a seq, and those after it, next to it.
    case before(Seq)
    case after(Seq)
    /// From the first that a user has not read, with a third of the page before it for context.
    case unread(UserID)
    /// With a message of this seq in the middle.
    case around(Seq)
}

extension Conversations {
    /// A page of at most `limit` messages; `nil` if there is no such conversation.
    package func timeline(_ id: ConversationID, _ range: TimelineRange, limit: Int) throws -> TimelinePage? {
        guard let row = try rows.row(at: id) else { return nil }
        let limit = max(limit, 0)
        var before: [Message] = []
        var after: [Message] = []
        switch range {
        case .newest: before = try messages(before: .max, limit, id, row)
        case .before(let seq): before = try messages(before: seq, limit, id, row)
        case .after(let seq): after = try messages(from: seq == .max ? .max : seq + 1, limit, id, row)
        case .around(let seq):
            before = try messages(before: seq, limit / 2, id, row)
            after = try messages(from: seq, limit - before.count, id, row)
        case .unread(let user):
            let mark = row.person(user).map { row.people[$0].mark } ?? 0
            before = try messages(before: mark + 1, limit / 3, id, row)
            after = try messages(from: mark + 1, limit - before.count, id, row)
            if after.isEmpty { before = try messages(before: .max, limit, id, row) }
        }
        let messages = before.isEmpty ? after : before + after
        let first = try self.firstSeq(id, row)
        return TimelinePage(
            conversation: id, messages: messages, receipts: row.receipts,
            hasBefore: messages.first.map { $0.seq > first } ?? Self.isAnything(.before, range, row),
            hasAfter: messages.last.map { $0.seq < row.last!.seq } ?? Self.isAnything(.after, range, row), seq: row.seq)
    }

    private enum Side { case before, after }

    /// An empty page still knows whether there are messages on either side of where it stands.
    private static func isAnything(_ side: Side, _ range: TimelineRange, _ row: borrowing ConversationRow) -> Bool {
        guard let last = row.last, let first = row.fences.first else { return false }
        switch (range, side) {
        case (.before(let seq), .after): return last.seq >= seq
        case (.after(let seq), .before): return first.firstSeq <= seq
        case (.before(let seq), .before): return first.firstSeq < seq
        case (.after(let seq), .after): return last.seq > seq
        case (.around(let seq), .before): return first.firstSeq < seq
        case (.around(let seq), .after): return last.seq >= seq
        case (.newest, .after): return false
        case (.unread, _), (.newest, .before): return true
        }
    }

    private func firstSeq(_ id: ConversationID, _ row: borrowing ConversationRow) throws -> Seq { row.fences.first?.firstSeq ?? 0 }

    /// The message of just this seq.
    package func message(_ id: ConversationID, at seq: Seq) throws -> (message: Message, receipts: Receipts)? {
        try rows.read(id) { row -> (Message, Receipts)? in
            guard let row, let number = try page(of: seq, id, row) else { return nil }
            return try pages.read(PageKey(id, number)) { page in
                guard let page else { throw Self.missing(number, id) }
                guard let place = page.place(of: seq) else { return nil }
                return (Message(page.messages[place], row), row.receipts)
            }
        }
    }

    /// A message by its id: looked for from the newest on, a page at a time.
    package func message(_ id: ConversationID, _ message: MessageID) throws -> (message: Message, receipts: Receipts)? {
        guard let row = try rows.row(at: id) else { return nil }
        for number in stride(from: Int64(row.pages) - 1, through: 0, by: -1) {
            let found = try pages.read(PageKey(id, UInt64(number))) { page -> Message? in
                guard let page else { throw Self.missing(UInt64(number), id) }
                for candidate in page.messages where candidate.id == message { return Message(candidate, row) }
                return nil
            }
            if let found { return (found, row.receipts) }
        }
        return nil
    }

    package func receipts(_ id: ConversationID) throws -> Receipts? { try rows.read(id) { $0?.receipts } }

    /// The last seq of a conversation; 0 if there is none.
    package func seq(of id: ConversationID) throws -> Seq { try rows.read(id) { $0?.seq ?? 0 } }

    private func messages(before seq: Seq, _ limit: Int, _ id: ConversationID, _ row: borrowing ConversationRow) throws -> [Message] {
        guard limit > 0, row.pages > 0, seq > 0 else { return [] }
        guard var number = seq > row.seq ? row.pages - 1 : try page(of: seq, id, row) else { return [] }
        // Whole pages from behind, turned round at the end: most requests take one to four.
        var parts: [ArraySlice<MessageRow>] = []
        var count = 0
        while true {
            let part = try pages.read(PageKey(id, number)) { page -> ArraySlice<MessageRow> in
                guard let page else { throw Self.missing(number, id) }
                var end = page.messages.count
                while end > 0, page.messages[end - 1].seq >= seq { end -= 1 }
                return ArraySlice(page.messages[max(0, end - (limit - count))..<end])
            }
            parts.append(part)
            count += part.count
            if count >= limit || number == 0 { break }
            number -= 1
        }
        var result: [Message] = []
        result.reserveCapacity(count)
        for part in parts.reversed() { for message in part { result.append(Message(message, row)) } }
        return result
    }

    private func messages(from seq: Seq, _ limit: Int, _ id: ConversationID, _ row: borrowing ConversationRow) throws -> [Message] {
        guard limit > 0, row.pages > 0, let last = row.last, seq <= last.seq else { return [] }
        var number = try page(of: seq, id, row) ?? 0
        var result: [Message] = []
        while number < row.pages, result.count < limit {
            try pages.read(PageKey(id, number)) { page in
                guard let page else { throw Self.missing(number, id) }
                for message in page.messages where message.seq >= seq && result.count < limit { result.append(Message(message, row)) }
            }
            number += 1
        }
        return result
    }
}

extension ConversationRow {
    var receipts: Receipts {
        var marks: [Receipts.Mark] = []
        for person in people where person.deliveredTo != 0 || person.readTo != 0 {
            marks.append(Receipts.Mark(user: person.user, deliveredTo: person.deliveredTo, readTo: person.readTo))
        }
        if marks.count > 1 { marks.sort { $0.user < $1.user } }
        return Receipts(marks: marks)
    }
}
