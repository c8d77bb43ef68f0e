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

    /// Bytes of text and envelopes of one conversation, and of messages that make a page.
    private static let pageBytes = 6 << 10, pageMessages = 20

    func frames(_ encoder: SegmentEncoder) throws -> [Frame] {
        var frames: [Frame] = []
        var count = hub.options.firstScreenConversations
        var rows = hub.options.firstScreenLobby
        var messages = Self.pageMessages
        var bytes = Self.pageBytes
        if case .newest(let conversations, let wanted) = scope {
            count = Int(clamping: conversations)
            rows = count
            messages = Int(clamping: wanted)
            bytes = 4 << 20
        }
        for row in try hub.store.lobby(of: identity.user, limit: rows).rows {
            if case .conversations(let ids) = scope, !ids.contains(row.conversation) { continue }
            if let frame = try base(row.conversation, messages: count > 0 ? messages : 0, bytesMax: bytes, encoder) { frames.append(.base(frame)) }
            count -= 1
        }
        return frames
    }

    /// A conversation's newest messages, over the state before them.
    func base(_ id: ConversationID, messages: Int, bytesMax: Int, _ encoder: SegmentEncoder) throws -> BaseFrame? {
        let log = LogID.conversation(id)
        let visible = hub.withIndex { $0.visibleSeq(of: log, for: identity, seesEverything: false) }
        guard visible > 0 else { return nil }
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
        let seq = (events.first?.seq ?? visible + 1) - 1
        var base: [UInt8] = []
        if seq > 0 {
            guard let encoded = try hub.store.encodedBase(of: id, at: seq) else { return nil }
            base = encoded.base
        }
        guard let before = seq == 0 ? CompactRange() : try hub.heads.tree(of: log, through: seq), let head = try hub.heads.tree(of: log, through: visible)
        else { return nil }
        return BaseFrame(
            log: log, base: base, seq: seq, range: before.encoded, secret: try hub.store.log.secret(of: log),
            head: LogHead(size: head.end, root: head.root()), run: events.isEmpty ? [] : try encoder.encode(events))
    }
}
