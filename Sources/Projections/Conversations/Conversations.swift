package import EventLog

/// A conversation's row where it lies, for the length of a closure.
///
/// To be asked for its fields and by what stands below: for a call of one of the row's own methods it may be copied.
typealias LentRow = UnsafePointer<ConversationRow>

extension LentRow {
    func person(_ user: UserID) -> Int? { ConversationRow.person(user, in: pointee.people, pointee.index) }

    /// Messages that somebody has not seen: neither deleted nor written before the mark, which the user's own are.
    func unread(of place: Int) -> UInt64 { pointee.live - min(pointee.live, pointee.people[place].liveToMark) }

    var receipts: Receipts {
        var marks: [Receipts.Mark] = []
        for person in pointee.people where person.deliveredTo != 0 || person.readTo != 0 {
            marks.append(Receipts.Mark(user: person.user, deliveredTo: person.deliveredTo, readTo: person.readTo))
        }
        if marks.count > 1 { marks.sort { $0.user < $1.user } }
        return Receipts(marks: marks)
    }
}

/// Timelines, lobbies, receipts and preferences (DESIGN.md, section 7), folded together as they share their events.
package final class Conversations: Projection {
    package static let name = "conversations"
    package static let version: UInt32 = 1

    let rows: Table<ConversationID, ConversationRow>
    let pages: Table<PageKey, PageRow>
    let members: Table<MemberKey, MemberRow>
    let streams: Table<PageKey, StreamRow>
    let lobbies = LobbyIndex()
    /// What an overlay shows beyond what is confirmed; `nil` for a state that is folded from a log.
    let overlay: OverlayMarks?

    package init(tables: inout ProjectionTables) {
        rows = tables.table(cacheBytes: 28 << 20)
        pages = tables.table(cacheBytes: 20 << 20)
        members = tables.table(cacheBytes: 6 << 20)
        streams = tables.table(cacheBytes: 1 << 20)
        overlay = nil
    }

    /// One conversation's state over that of a log, or over a base instead: see `Overlays`.
    init(over below: Conversations, base: ConversationRow?, _ marks: OverlayMarks) {
        rows = Table(over: { id in try base ?? below.rows.row(at: id) }, cacheBytes: 1 << 20)
        pages = Table(over: { key in base == nil ? try below.pages.row(at: key) : nil }, cacheBytes: 1 << 20)
        members = Table(over: { key in try below.members.row(at: key) }, cacheBytes: 1 << 20)
        streams = Table(over: { key in base == nil ? try below.streams.row(at: key) : nil }, cacheBytes: 1 << 20)
        overlay = marks
    }

    package func apply(_ event: RecordedEvent) throws {
        let id = event.event.conversation
        switch event.event.content {
        case .preferenceSet(let key, let value):
            try members.update(MemberKey(UserHash(event.event.author), id)) { row in
                row = row ?? MemberRow()
                if !event.isErased { row!.setPreference(key, value, Stamp(event)) }
                lobbies.prefers(event.event.author, id, row!.shown)
            }
        default: try rows.update(id) { try apply(event, to: &$0) }
        }
    }

    /// Folds events of a log where they lie, just as `apply` would one after the other.
    func fold(_ part: RunPart) throws {
        guard case .conversation(let id) = part.log else { return try part.forEachEvent { try apply($0) } }
        try rows.update(id) { row in
            try part.forEachPiece { piece in
                switch piece {
                case .message(let message):
                    guard case .some = row else { return }
                    row!.seq = max(row!.seq, message.seq)
                    let new = MessageRow(
                        id: message.id, seq: message.seq, author: UInt32(row!.addPerson(message.author)), role: .user, state: .complete,
                        sentAt: message.sentAt, text: trustedText(of: message.text))
                    try send(new, replyTo: message.replyTo, parts: nil, message.hlc, id, &row!)
                case .chunks(let chunks):
                    guard case .some = row else { return }
                    row!.seq = max(row!.seq, chunks.seq)
                    try append(trustedText(of: chunks.text), chunks.count, to: chunks.target, id, &row!)
                case .event(let event): try apply(event, to: &row)
                }
            }
        }
    }

    private func apply(_ event: RecordedEvent, to row: inout ConversationRow?) throws {
        if case .conversationCreated(let kind, let title, let participants) = event.event.content { return try create(kind, title, participants, event, &row) }
        // An event of a conversation that is not known changes nothing.
        guard case .some = row else { return }
        row!.seq = max(row!.seq, event.seq)
        try apply(event, to: &row!)
    }

    /// Takes note of an event that nothing is to be shown of: that it was there.
    func pass(_ event: RecordedEvent) throws {
        try rows.update(event.event.conversation) { row in if case .some = row { row!.seq = max(row!.seq, event.seq) } }
    }

    private func create(
        _ kind: Event.ConversationKind, _ title: String?, _ participants: [UserID], _ event: RecordedEvent, _ row: inout ConversationRow?
    ) throws {
        guard case .none = row else { return }
        let id = event.event.conversation
        var new = ConversationRow()
        new.kind = kind
        new.seq = event.seq
        new.order = event.hlc
        if let title { new.title.write(title, Stamp(event)) }
        for user in [event.event.author] + participants where new.setParticipant(user, true) {
            try members.update(MemberKey(UserHash(user), id)) { member in
                member = member ?? MemberRow()
                member!.isIn = true
            }
            lobbies.joined(id, new.order, user)
        }
        row = new
    }

    private func apply(_ event: RecordedEvent, to row: inout ConversationRow) throws {
        let id = event.event.conversation
        // An event points at an earlier one. Acceptance sees to it; an exact copy or a peer's log may claim anything.
        let target = event.targetSeq.map { $0 < event.seq ? $0 : 0 } ?? 0
        switch event.event.content {
        case .conversationUpdated(let title, let attributes):
            if event.isErased { return }
            let stamp = Stamp(event)
            if let title { row.title.write(title, stamp) }
            for attribute in attributes { row.setAttribute(attribute.name, attribute.value, stamp) }
        case .participantJoined(let user), .participantLeft(let user):
            let isIn = event.event.content.kind == .participantJoined
            guard row.setParticipant(user, isIn) else { return }
            try members.update(MemberKey(UserHash(user), id)) { member in
                member = member ?? MemberRow()
                member!.isIn = isIn
                if member!.isEmpty { member = nil }
            }
            if isIn { lobbies.joined(id, row.order, user) } else { lobbies.left(id, row.order, user) }
        case .messageSent(let message): try send(message, event, &row)
        case .chunkAppended(_, _, let text):
            try append(text, 1, isErased: event.isErased, to: target, id, &row)
        case .messageCompleted(_, let finishReason, let usage):
            try close(target, id, .complete, &row) { message in
                if finishReason == nil, usage == nil { return }
                message.editRare {
                    $0.finishReason = finishReason.flatMap { $0.isEmpty ? nil : $0 }
                    $0.usage = usage
                }
            }
        case .messageInterrupted(_, let reason):
            try close(target, id, .interrupted, &row) { message in message.editRare { $0.interruptedReason = reason } }
        case .messageEdited(_, let text):
            try edit(target, id, &row) { message, row in
                guard message.state != .deleted, message.state != .streaming else { return 0 }
                message.isEdited = true
                let stamp = Stamp(event)
                if let old = message.rare?.edit, stamp <= old { return 0 }
                message.editRare {
                    $0.edit = stamp
                    $0.isEditErased = event.isErased
                }
                message.text = text
                if row.last?.seq == target { row.last?.snippet = ConversationRow.snippet(message.shownText) }
                return 0
            }
        case .messageDeleted: try delete(target, id, &row)
        case .reactionSet(_, let emoji, let isOn):
            if event.isErased { return }
            let author = UInt32(row.addPerson(event.event.author))
            try edit(target, id, &row) { message, _ in
                if message.state != .deleted { message.editRare { $0.setReaction(emoji, author, isOn, Stamp(event)) } }
                return 0
            }
        case .receiptDelivered:
            let place = row.addPerson(event.event.author)
            row.editPerson(place) { $0.deliveredTo = max($0.deliveredTo, target) }
        case .receiptRead:
            let place = row.addPerson(event.event.author)
            row.editPerson(place) { $0.readTo = max($0.readTo, target) }
            if target > row.people[place].mark {
                let live = try live(through: target, id, &row)
                row.editPerson(place) {
                    $0.mark = target
                    $0.liveToMark = live
                }
            }
        case .conversationCreated, .preferenceSet, .custom, .unknown: break
        }
    }

    private func send(_ message: Event.Message, _ event: RecordedEvent, _ row: inout ConversationRow) throws {
        let new = MessageRow(
            id: message.id, seq: event.seq, author: UInt32(row.addPerson(event.event.author)), role: message.role,
            state: message.isStreaming ? .streaming : .complete,
            isErased: event.isErased, sentAt: event.origin.hlc.milliseconds, text: message.text)
        try send(new, replyTo: message.replyTo, parts: message.parts, event.hlc, event.event.conversation, &row)
        if message.isStreaming {
            let stream = StreamRow(message: message.id, author: event.event.author, replica: event.origin.replica)
            try streams.put(stream, at: PageKey(event.event.conversation, event.seq))
        }
    }

    /// A message whose author has a number in the conversation.
    private func send(
        _ message: consuming MessageRow, replyTo: MessageID?, parts: String?, _ hlc: HLC, _ id: ConversationID, _ row: inout ConversationRow
    ) throws {
        var new = message
        if replyTo != nil || parts != nil {
            new.editRare {
                $0.replyTo = replyTo
                $0.parts = parts
            }
        }
        // The newest page lies in the row itself until it is full and another message comes.
        if row.pages == 0 || row.open.isFull {
            if row.pages > 0 {
                let full = row.takeOpen()
                pages.grew(by: full.textBytes)
                try pages.put(full, at: PageKey(id, row.pages - 1))
            }
            row.addPage(firstSeq: new.seq)
        }
        let state = new.shownState
        let snippet = ConversationRow.snippet(new.shownText)
        rows.grew(by: 120 + new.text.utf8.count)
        if new.role == .system {
            if row.systems.count == ConversationRow.systemsMax { row.systems.replaceSubrange(..<2, with: [0]) }
            row.systems.append(new.seq)
        }
        row.messages += 1
        // What was refused nobody has to read, and its author has read nothing before it by writing it.
        if !overlay.isFailed(new.seq) {
            row.live += 1
            let live = row.live
            row.editPerson(Int(new.author)) {
                $0.mark = new.seq
                $0.liveToMark = live
            }
        }
        row.last = ConversationRow.Last(
            id: new.id, seq: new.seq, author: new.author, role: new.role, state: state, sentAt: new.sentAt, snippet: snippet)
        try row.open.append(new)
        let old = row.order
        row.order = max(old, hlc)
        if !lobbies.isEmpty { lobbies.moved(id, from: old, to: row.order, for: row.participants) }
    }

    /// Adds so many chunks' text to the message that they name.
    private func append(
        _ text: String, _ chunks: UInt32, isErased: Bool = false, to target: Seq, _ id: ConversationID, _ row: inout ConversationRow
    ) throws {
        try edit(target, id, &row) { message, row in
            guard message.state == .streaming else { return 0 }
            message.isErased = message.isErased || isErased
            if row.last?.seq == target { row.last!.grow(message, by: text) }
            message.text += text
            message.chunks += chunks
            rows.grew(by: text.utf8.count)
            return text.utf8.count
        }
    }

    private func close(_ target: Seq, _ id: ConversationID, _ state: MessageState, _ row: inout ConversationRow, _ body: (inout MessageRow) -> Void) throws {
        try edit(target, id, &row) { message, _ in
            guard message.state == .streaming else { return 0 }
            message.state = state
            body(&message)
            try streams.put(nil, at: PageKey(id, target))
            return 0
        }
    }

    private func delete(_ target: Seq, _ id: ConversationID, _ row: inout ConversationRow) throws {
        try edit(target, id, &row) { message, row in
            guard message.state != .deleted else { return 0 }
            if message.state == .streaming { try streams.put(nil, at: PageKey(id, target)) }
            message.state = .deleted
            message.text = ""
            message.isEdited = false
            if message.rare != nil {
                message.editRare {
                    $0.edit = nil
                    $0.isEditErased = false
                    $0.parts = nil
                    $0.reactions = []
                }
            }
            if message.role == .system { row.systems.removeAll { $0 == target } }
            if !overlay.isFailed(target) { row.countDeleted(target) }
            if row.last?.seq == target { row.last?.snippet = "" }
            return 0
        }
        if row.isBelowPages(target) { row.countDeleted(target) }
        // The known ones are gone, but there were more before them.
        if row.systems == [0] { row.systems = try systems(id, &row) }
    }

    // Finding.

    /// The page that holds the message of a seq.
    func page(of seq: Seq, _ id: ConversationID, _ row: LentRow) throws -> UInt64? {
        guard row.pointee.pages > 0 else { return nil }
        if seq >= row.pointee.openFirstSeq { return row.pointee.pages - 1 }
        guard var range = row.pointee.pages(around: seq)?.range else { return nil }
        while range.count > 1 {
            let middle = range.lowerBound + UInt64(range.count / 2)
            let first = try readPage(middle, id, row) { $0.firstSeq }
            if first <= seq { range = middle..<range.upperBound } else { range = range.lowerBound..<middle }
        }
        return range.lowerBound
    }

    /// Lends a page. One that the row vouches for and that is not there is damage, not an empty one (I7).
    func readPage<R>(_ number: UInt64, _ id: ConversationID, _ row: LentRow, _ body: (borrowing PageRow) throws -> R) throws -> R {
        if number + 1 == row.pointee.pages { return try body(row.pointee.open) }
        guard let result = try pages.read(PageKey(id, number), body) else { throw Self.missing(number, id) }
        return result
    }

    static func missing(_ page: UInt64, _ id: ConversationID) -> EventLogError {
        EventLogError(.damaged, "page \(page) of conversation \(id) is missing from the projection \(name); run `convstore rebuild`")
    }

    /// The newest system messages that are not deleted, looked for from the newest page on.
    private func systems(_ id: ConversationID, _ row: LentRow) throws -> [Seq] {
        var found: [Seq] = []
        var number = row.pointee.pages
        while number > 0, found.count < ConversationRow.systemsMax - 1 {
            number -= 1
            try readPage(number, id, row) { page in
                var some: [Seq] = []
                try page.forEach { message in
                    if message.role == .system, message.isLive { some.append(message.seq) }
                    return true
                }
                found += some.reversed()
            }
        }
        let isMore = number > 0 || found.count >= ConversationRow.systemsMax
        return (isMore ? [0] : []) + found.prefix(ConversationRow.systemsMax - 1).reversed()
    }

    /// Lends a message to be changed; nothing happens if there is none. The closure says by how many bytes its text grew.
    private func edit(
        _ seq: Seq, _ id: ConversationID, _ row: inout ConversationRow,
        _ body: (inout MessageRow, inout ConversationRow) throws -> Int
    ) throws {
        func change(_ message: inout MessageRow) throws -> Int {
            let growth = try body(&message, &row)
            if row.last?.seq == seq { row.last?.state = message.shownState }
            return growth
        }
        guard let number = try page(of: seq, id, &row) else { return }
        if number + 1 == row.pages {
            // Taken out while it is changed, so that it has one owner.
            var open = row.takeOpen()
            defer { row.open = open }
            try open.edit(seq, change)
        } else {
            try pages.update(PageKey(id, number)) { page in
                guard case .some = page else { throw Self.missing(number, id) }
                try page!.edit(seq, change)
            }
        }
    }

    /// Messages up to a seq that are not deleted.
    private func live(through seq: Seq, _ id: ConversationID, _ row: LentRow) throws -> UInt64 {
        if let last = row.pointee.last, seq >= last.seq { return row.pointee.live }
        guard let number = try page(of: seq, id, row) else { return row.pointee.fences.first?.liveBefore ?? 0 }
        if number + 1 == row.pointee.pages {
            let after = try row.pointee.open.live(through: .max, overlay) - row.pointee.open.live(through: seq, overlay)
            return row.pointee.live - min(after, row.pointee.live)
        }
        guard let (range, before) = row.pointee.pages(around: seq) else { return 0 }
        var count = before
        for number in range.lowerBound...number { count += try readPage(number, id, row) { [overlay] in try $0.live(through: seq, overlay) } }
        return count
    }
}

extension ConversationRow {
    mutating func setAttribute(_ name: String, _ value: String?, _ stamp: Stamp) {
        var pairs = attributes.map { (key: $0.name, value: $0.value) }
        MemberRow.write(&pairs, name, value, stamp)
        attributes = pairs.map { (name: $0.key, value: $0.value) }
    }
}

extension MessageRow.Rare {
    func setReaction(_ emoji: String, _ author: UInt32, _ isOn: Bool, _ stamp: Stamp) {
        var place = 0
        while place < reactions.count {
            let order = compareBytes(reactions[place].emoji, emoji)
            if order > 0 || (order == 0 && reactions[place].author >= author) { break }
            place += 1
        }
        if place < reactions.count, reactions[place].author == author, compareBytes(reactions[place].emoji, emoji) == 0 {
            if stamp > reactions[place].stamp {
                reactions[place].isOn = isOn
                reactions[place].stamp = stamp
            }
        } else {
            reactions.insert(Reaction(emoji: emoji, author: author, isOn: isOn, stamp: stamp), at: place)
        }
    }
}
