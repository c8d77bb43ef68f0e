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
        /// Logs whose events so far are all in `events`, and how many they are.
        var whole: [LogID: Seq] = [:]
    }

    func part() throws -> Part {
        var part = Part()
        var count = hub.options.firstScreenConversations
        var rows = hub.options.firstScreenLobby
        var messages = Self.pageMessages
        var bytes = Self.pageBytes
        if case .newest(let conversations, let wanted) = scope {
            count = Int(clamping: conversations)
            rows = count
            messages = Int(clamping: wanted)
            bytes = 1 << 20
        }
        for row in try hub.store.lobby(of: identity.user, limit: rows).rows {
            if case .conversations(let ids) = scope, !ids.contains(row.conversation) { continue }
            try add(row.conversation, messages: count > 0 ? messages : 0, bytesMax: bytes, to: &part)
            count -= 1
        }
        return part
    }

    /// Adds a conversation's newest messages, over the state before them.
    func add(_ id: ConversationID, messages: Int, bytesMax: Int, to part: inout Part) throws {
        let log = LogID.conversation(id)
        let visible = hub.withIndex { $0.visibleSeq(of: log, for: identity, seesEverything: false) }
        guard visible > 0 else { return }
        var events: [RecordedEvent] = []
        var left = messages
        var bytes = 0
        if messages > 0 {
            try hub.store.log.forEachEvent(in: log, range: 1...visible, isReversed: true) { event in
                events.append(event)
                bytes += event.event.approximateBytes
                if case .messageSent = event.event.content { left -= 1 }
                return left > 0 && bytes < bytesMax && events.count < 4096
            }
            events.reverse()
        }
        if events.first?.seq == 1 {
            part.whole[log] = visible
            part.events += events
            return
        }
        // A state in the middle of a stream would know nothing of its text so far.
        let first = events.firstIndex { if case .messageSent = $0.event.content { true } else { false } } ?? events.endIndex
        events.removeFirst(first)
        let seq = (events.first?.seq ?? visible + 1) - 1
        guard let base = try hub.store.encodedBase(of: id, at: seq), let range = try hub.heads.tree(of: log, through: seq) else { return }
        part.bases.append(BaseFrame(log: log, base: base, seq: seq, range: range.encoded, secret: try hub.store.log.secret(of: log)))
        part.events += events
    }
}
