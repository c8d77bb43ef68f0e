import ConversationStore

/// What changed of a conversation's messages since it was last looked at.
struct TimelineWatch {
    /// A message that is new, or not what it was.
    struct Change {
        /// As it was last, if it is withdrawn.
        var message: Message
        /// It waited for the hub, or had failed, and was given up.
        var isWithdrawn = false
        var receipts: Receipts
        /// What was shown of it before.
        var before: Message?
        /// The message that it answers.
        var answered: Message?
    }

    private struct Shown: Equatable {
        var message: Message
        var deliveredTo: [UserID]
        var readBy: [UserID]

        init(_ message: Message, _ receipts: Receipts) {
            self.message = message
            deliveredTo = receipts.deliveredTo(message)
            readBy = receipts.readBy(message)
        }

        /// What is not confirmed has no seq of its own yet: that it moves up, as one before it was withdrawn, is no news.
        static func == (old: Shown, new: Shown) -> Bool {
            var message = old.message
            if message.unconfirmed != nil, new.message.unconfirmed != nil { message.seq = new.message.seq }
            return message == new.message && old.deliveredTo == new.deliveredTo && old.readBy == new.readBy
        }
    }

    /// Messages of which a new reader is told.
    private static let rememberedMax = 1000

    let conversation: ConversationID
    private let limit: Int
    private var seq: Seq = 0
    /// Nothing of a conversation that the hub does not know has a seq.
    private var hasLooked = false
    private var shown: [Seq: Shown] = [:]
    /// Those that the hub has not accepted: their seqs are not theirs yet.
    private var unconfirmed: [MessageID: Shown] = [:]
    /// Those that stood above the first page: they are no news.
    private var above: Set<MessageID> = []
    /// Of the last page.
    private var receipts: Receipts?

    init(_ conversation: ConversationID, limit: Int) {
        self.conversation = conversation
        self.limit = limit
    }

    /// The newest page first, then each message that an event since then made, changed, or whose readers became more; ascending.
    mutating func update(from store: ConversationStore) throws -> [Change] {
        guard let page = try store.timeline(of: conversation, .newest, limit: limit) else {
            // It was being made here, and was given up.
            defer { unconfirmed = [:] }
            guard let receipts else { return [] }
            return unconfirmed.values.sorted { $0.message.seq < $1.message.seq }.map { Change(message: $0.message, isWithdrawn: true, receipts: receipts) }
        }
        receipts = page.receipts
        let isFirst = !hasLooked
        hasLooked = true
        let isOverlaid = store.overlaidConversations.contains(conversation)
        var touched = Set(isFirst ? page.messages.map(\.seq) : [])
        var hasReceipts = false
        if !isFirst, page.seq > seq {
            try store.log.forEachEvent(in: .conversation(conversation), range: seq + 1...page.seq) { event in
                switch event.event.content {
                case .messageSent: touched.insert(event.seq)
                case .receiptDelivered, .receiptRead: hasReceipts = true
                case .chunkAppended, .messageCompleted, .messageInterrupted, .messageEdited, .messageDeleted, .reactionSet:
                    if let target = event.targetSeq { touched.insert(target) }
                default: break
                }
                return true
            }
        }
        // No event tells of what was erased: so what was shown is looked at again, if it is much when no event says why the store changed.
        if !isFirst, page.seq == seq || shown.count <= Self.rememberedMax { touched.formUnion(shown.keys) }
        // What is pending is in no log, nor is a preview.
        if isOverlaid { touched.formUnion(page.messages.map(\.seq)) }
        // More may have been written since we looked than a page holds.
        let waiting = isOverlaid ? try Self.waiting(above: page, store) : []
        if isFirst { above = Set(waiting.map(\.id)) }
        touched.formUnion(waiting.filter { !above.contains($0.id) || unconfirmed[$0.id] != nil }.map(\.seq))
        // What waits, or failed, for messages further back is there at first, and news from then on.
        let unsettled = isOverlaid ? try Set(store.unsettledSeqs(in: conversation).filter { $0 <= page.seq }) : []
        if isFirst {
            for seq in unsettled where !touched.contains(seq) {
                if let message = try store.message(in: conversation, at: seq) { shown[seq] = Shown(message, page.receipts) }
            }
        } else {
            touched.formUnion(unsettled)
        }
        seq = max(seq, page.seq)
        if hasReceipts { touched.formUnion(shown.keys) }
        let onPage = Dictionary(uniqueKeysWithValues: (waiting + page.messages).map { ($0.seq, $0) })
        var changes: [Change] = []
        for seq in touched.sorted() {
            guard let message = try onPage[seq] ?? store.message(in: conversation, at: seq) else { continue }
            let now = Shown(message, page.receipts)
            let before: Shown?
            if message.unconfirmed != nil {
                before = unconfirmed.updateValue(now, forKey: message.id)
            } else {
                let sent = unconfirmed.removeValue(forKey: message.id)
                before = shown.updateValue(now, forKey: seq) ?? sent
            }
            if before == now { continue }
            let answered = try Chat.answered(by: message, in: conversation, store)
            changes.append(Change(message: message, receipts: page.receipts, before: before?.message, answered: answered))
        }
        changes += try changesOffPage(page, waiting, store)
        // What is looked at each time must be remembered, or it would be news each time.
        while shown.count > max(limit, Self.rememberedMax), let oldest = shown.keys.lazy.filter({ !unsettled.contains($0) }).min() { shown[oldest] = nil }
        return changes
    }

    /// The messages above a page that the hub has not accepted. What waits comes behind all others: a page that begins before it has all there is.
    private static func waiting(above page: TimelinePage, _ store: ConversationStore) throws -> ArraySlice<Message> {
        var all = page.messages
        if all.isEmpty { all = try store.timeline(of: page.conversation, .newest, limit: 1)?.messages ?? [] }
        while all.first?.unconfirmed != nil {
            let more = try store.timeline(of: page.conversation, .newest, limit: 2 * all.count)?.messages ?? []
            if more.count <= all.count { break }
            all = more
        }
        return all.dropLast(page.messages.count).filter { $0.unconfirmed != nil }[...]
    }

    /// What became of messages that the hub had not accepted and that are not among those any more: it has accepted them, or they are nowhere.
    private mutating func changesOffPage(_ page: TimelinePage, _ waiting: ArraySlice<Message>, _ store: ConversationStore) throws -> [Change] {
        var rest = unconfirmed
        for message in waiting + page.messages { rest[message.id] = nil }
        var changes: [Change] = []
        for (id, before) in rest.sorted(by: { $0.value.message.seq < $1.value.message.seq }) {
            unconfirmed[id] = nil
            // Newest parts of logs are in no log, but shown.
            guard let message = try store.message(in: conversation, id: id) else {
                changes.append(Change(message: before.message, isWithdrawn: true, receipts: page.receipts))
                continue
            }
            shown[message.seq] = Shown(message, page.receipts)
            changes.append(
                Change(message: message, receipts: page.receipts, before: before.message, answered: try Chat.answered(by: message, in: conversation, store)))
        }
        return changes
    }
}
