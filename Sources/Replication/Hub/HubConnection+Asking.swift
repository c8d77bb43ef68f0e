internal import ConversationStore
internal import EventLog

/// What a peer asks for that its credit does not pay: answered in order, and slower for who asks much.
extension HubConnection {
    enum Question {
        case fetch([Fetch])
        case compare(HeadsFrame)
        case repair(DamagedRun)
        /// Says that all that was asked before it is answered.
        case pong(UInt64)

        /// What it costs in memory until it is answered, about.
        var bytes: Int {
            switch self {
            case .fetch(let wishes): 64 + wishes.count * 64
            case .compare(let heads): 64 + heads.heads.count * 96
            case .repair(let run): 128 + run.checks.count * RunBlocks.checkBytes + run.spans.count * 64
            case .pong: 64
            }
        }
    }

    /// Bytes of questions that may wait: who asks on and on is cut off.
    private static let questionBytesMax = 16 << 20

    func ask(_ question: Question) {
        questions.append(question)
        answer()
        if !questions.isEmpty, questions.reduce(0, { $0 + $1.bytes }) > Self.questionBytesMax {
            perform(session.end(Bye(.overloaded, "more was asked than can be answered")))
        }
    }

    /// What waited for the allowance.
    func goOn() {
        guard session.isOpen else { return }
        if !questions.isEmpty { answer() }
        decideNext()
        if !screen.isEmpty { pump() }
    }

    private func answer() {
        var isAnswered = false
        guarded {
            while !questions.isEmpty, allowance.isLeft(at: now) {
                isAnswered = true
                switch questions[0] {
                case .fetch(let wishes):
                    questions.removeFirst()
                    try fetch(wishes)
                case .repair(let run):
                    questions.removeFirst()
                    try repair(run)
                case .pong(let id):
                    questions.removeFirst()
                    transmit(.pong(id))
                case .compare(let heads):
                    let rest = try compare(heads)
                    if let rest { questions[0] = .compare(rest) } else { questions.removeFirst() }
                }
            }
        }
        guard isAnswered, session.isOpen else { return }
        toldPosition = nil
        pump()
    }

    private func fetch(_ wishes: [Fetch]) throws {
        allowance.spend(Effort(events: wishes.count * Self.wishCost))
        for wish in wishes {
            offered.remove(wish.log)
            if wish.from == 0, case .conversation(let id) = wish.log {
                guard visibleSeq(wish.log) > 0 else { continue }
                let page = FirstScreen.Page(
                    conversation: id, messages: Int(clamping: min(wish.through, 1000)), bytesMax: FirstScreen.partBytesMax)
                // Once, however often it is asked for: what waits for credit is bounded by what the peer may see.
                if let index = screen.firstIndex(where: { $0.conversation == id }) {
                    if screen[index].messages < page.messages { screen[index] = page }
                } else {
                    screen.append(page)
                }
                continue
            }
            // The same silence for what is not there and what is not allowed.
            guard wish.from > 0, visibleSeq(wish.log) >= wish.from else { continue }
            try want(wish.log, from: wish.from, through: wish.through == 0 ? .max : wish.through)
        }
    }

    /// Finding a log's places costs about as much as hashing so many events.
    static let wishCost = 16

    /// A replica whose cursor is gone says what it has: what it lacks is sent; where it has something else, it is told what is here instead.
    ///
    /// Returns what is left of the frame when the allowance is used up.
    private func compare(_ frame: HeadsFrame) throws -> HeadsFrame? {
        var answers: [HeadsFrame.Item] = []
        var heads = frame.heads[...]
        while let item = heads.first, allowance.isLeft(at: now) {
            heads.removeFirst()
            // A log that the scope leaves out is there all the same: to deny it would make the replica throw it away.
            guard isInScope(item.log) else { continue }
            if let answer = try compare(item, isProbe: frame.isProbe) { answers.append(answer) }
        }
        if !answers.isEmpty { transmit(.heads(HeadsFrame(heads: answers, isProbe: true))) }
        guard heads.isEmpty else { return HeadsFrame(heads: Array(heads), isProbe: frame.isProbe, isLast: frame.isLast) }
        if frame.isLast, awaitsHeads, let identity = session.who { try endComparison(identity) }
        return nil
    }

    private func compare(_ item: HeadsFrame.Item, isProbe: Bool) throws -> HeadsFrame.Item? {
        let seq = visibleSeq(item.log)
        let size = min(seq, item.head.size)
        var effort = Effort()
        let root = size == 0 ? CompactRange().root() : try hub.root(of: item.log, at: size, &effort)
        allowance.spend(effort)
        // Of names that the peer makes up nothing is remembered.
        if size == item.head.size, root == item.head.root, !isProbe {
            if seq > size { try want(item.log, from: size + 1) }
            if seq > 0 { named.insert(item.log) }
            return nil
        }
        if seq > 0 {
            offered.insert(item.log)
            if !isProbe { named.insert(item.log) }
        } else {
            hasDenied = true
        }
        return HeadsFrame.Item(log: item.log, head: LogHead(size: size, root: root))
    }

    /// What the replica did not name it does not have.
    private func endComparison(_ identity: Identity) throws {
        for change in hub.withIndex({ $0.changes(for: identity, seesEverything: seesEverything, after: 0) })
        where !named.contains(change.log) && isInScope(change.log) {
            // Of newest parts only those are sent that the screen has.
            if case .newest = scope, case .conversation = change.log { continue }
            try want(change.log, from: 1)
        }
        if case .newest = scope { screen += try FirstScreen(hub, identity, scope).pages().filter { !named.contains(.conversation($0.conversation)) } }
        named = []
        awaitsHeads = false
    }
}
