internal import ConversationStore

/// What a new device shows before anything else: its user's lobby, and the newest messages of the first conversations in it.
struct FirstScreen {
    private let hub: Hub
    private let identity: Identity
    private let scope: Scope

    init(_ hub: Hub, _ identity: Identity, _ scope: Scope) {
        self.hub = hub
        self.identity = identity
        self.scope = scope
    }

    /// Bytes of text and envelopes of one conversation, and messages that make a page.
    private static let pageBytes = 6 << 10, pageMessages = 20

    /// What is sent first: states, then the events behind them, of all conversations in one frame.
    struct Part {
        var bases: [BaseFrame] = []
        var events: [RecordedEvent] = []
        /// Logs of which all goes, as no message carries the state with which a page would begin.
        var wholes: [LogID] = []
        /// Logs of which only a part is for the peer, and the seqs at which it begins: all of it follows.
        var beginnings: [(log: LogID, seq: Seq)] = []
        var bytes = 0
        /// Logs that cannot be read as far as a page needs it, and why.
        var damage: [(log: LogID, error: EventLogError)] = []
        /// What it took to make it.
        var effort = Effort()
    }

    /// A conversation's newest messages that are wanted.
    struct Page {
        var conversation: ConversationID
        var messages: Int
        var bytesMax: Int
        /// Asked for from here on, when the history began later.
        var from: Seq?
    }

    private static let newestMax: UInt64 = 1 << 20

    /// The conversations of the screen, in its order.
    func pages() throws -> [Page] { try pages(rows()) }

    private func rows() throws -> [LobbyRow] {
        var limit = hub.options.firstScreenLobby
        if case .newest(let conversations, _) = scope { limit = Int(min(conversations, Self.newestMax)) }
        return try hub.store.lobby(of: identity.user, limit: limit).rows
    }

    private func pages(_ rows: [LobbyRow]) -> [Page] {
        var count = hub.options.firstScreenConversations
        var page = Page(conversation: ConversationID(high: 0, low: 0), messages: Self.pageMessages, bytesMax: Self.pageBytes)
        if case .newest(_, let wanted) = scope {
            count = rows.count
            page.messages = Int(clamping: wanted)
            page.bytesMax = Self.partBytesMax
        }
        var pages: [Page] = []
        for row in rows {
            if case .conversations(let ids) = scope, !ids.contains(row.conversation) { continue }
            page.conversation = row.conversation
            if pages.count >= count { page.messages = 0 }
            pages.append(page)
        }
        return pages
    }

    /// Of the newest conversations, the scope, those that may have come up to them since the user left others: whoever had the newest lacks no more.
    func pages(behindLeaving left: Set<ConversationID>, _ effort: inout Effort) throws -> ArraySlice<Page> {
        guard !left.isEmpty, case .newest(let conversations, _) = scope else { return [] }
        let rows = try rows()
        effort.events += rows.count + left.count
        let count = Int(min(conversations, Self.newestMax))
        // What stood below all of them made room for none.
        let lastOrder = rows.count < count ? HLC(rawValue: 0) : rows.last?.order ?? HLC(rawValue: .max)
        let made = try left.count { try hub.store.order(of: $0).map { $0 >= lastOrder } ?? false }
        return pages(rows)[max(0, min(rows.count, count - made))...]
    }

    /// The next pages, as many as make a frame, or as are made of so many events.
    func part(_ pages: inout ArraySlice<Page>, bytesMax: Int) throws -> Part {
        var part = Part()
        while let page = pages.first, part.events.count < Self.partEventsMax, part.bytes < min(Self.partBytesMax, bytesMax), part.effort.events < Self.effortMax
        {
            pages.removeFirst()
            do {
                try add(page, to: &part)
            } catch let error as EventLogError where error.code == .damaged {
                part.damage.append((.conversation(page.conversation), error))
            }
        }
        return part
    }

    private static let partEventsMax = 4096
    /// So many times what makes a page its one message may be.
    private static let longest = 16
    /// A tenth of a second or two, as others wait for their turns; the screen of a user with so much less is one frame.
    private static let effortMax = 1 << 17
    static let partBytesMax = 512 << 10

    /// Adds a conversation's newest messages, over the state before them.
    private func add(_ page: Page, to part: inout Part) throws {
        let id = page.conversation
        let log = LogID.conversation(id)
        let visible = hub.withIndex { $0.visibleSeq(of: log, for: identity, seesEverything: false) }
        guard visible > 0 else { return }
        let begin = try hub.firstSeq(of: log, for: identity, seesEverything: false, &part.effort)
        if begin > 1 {
            guard begin <= visible, let base = try hub.beginning(of: id, at: begin, &part.effort) else { return }
            // There is nothing else to begin with: this one is not sent, and all others are.
            guard base.base.count <= WireLimits.baseBytesMax else {
                return part.damage.append(
                    (log, EventLogError(.invalidArgument, "\(log): its people, title and attributes have \(base.base.count) bytes, which no message carries")))
            }
            part.bytes += base.base.count
            part.bases.append(base)
            part.beginnings.append((log, begin))
            return
        }
        if let from = page.from {
            // Its history was opened meanwhile.
            part.beginnings.append((log, from))
            if page.messages == 0 { return }
        }
        var events: [RecordedEvent] = []
        var left = page.messages
        var bytes = 0
        if page.messages > 0 {
            try hub.store.log.forEachEvent(in: log, range: 1...visible, isReversed: true) { event in
                events.append(event)
                bytes += event.event.approximateBytes
                if case .messageSent = event.event.content { left -= 1 }
                // A long answer, streamed to its end or not, is shown all the same.
                let more = left == page.messages ? Self.longest : 1
                return left > 0 && bytes < more * page.bytesMax && events.count < more * Self.partEventsMax
            }
            part.effort.events += max(0, events.count - Self.partEventsMax)
            events.reverse()
        }
        if events.first?.seq == 1 {
            part.events += events
            part.bytes += bytes
            return
        }
        // A state in the middle of a stream would know nothing of its text so far.
        let first = events.firstIndex { if case .messageSent = $0.event.content { true } else { false } } ?? events.endIndex
        events.removeFirst(first)
        let seq = (events.first?.seq ?? visible + 1) - 1
        guard let base = try hub.bases.base(of: id, at: seq, &part.effort), let range = try hub.heads.tree(of: log, through: seq, &part.effort) else { return }
        if base.count > WireLimits.baseBytesMax {
            // No message carries that: what it says comes event by event, with all others.
            part.wholes.append(log)
            return
        }
        part.bytes += bytes + base.count
        part.bases.append(BaseFrame(log: log, base: base, seq: seq, range: range.encoded, secret: try hub.store.log.secret(of: log)))
        part.events += events
    }
}
