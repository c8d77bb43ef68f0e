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

        /// Whether it may take long: hashing of long logs, reading of whole runs.
        var isLong: Bool {
            switch self {
            case .compare, .repair: true
            case .fetch, .pong: false
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

    /// What waited for the allowance, or for the transport.
    func goOn() {
        guard session.isOpen else { return }
        goOnReading()
        decideNext()
        if !screen.isEmpty || isClogged || awaitsAllowance || awaitsFilling { pump() }
    }

    /// What is asked and what is pushed share the allowance: each has it first, one time and the other.
    func goOnReading() {
        // What is sent behind an answer takes it.
        let inTurn = hasTurn
        looksFirst.toggle()
        if looksFirst { lookOn(inTurn: inTurn) }
        if !questions.isEmpty { answer() }
        if !looksFirst { lookOn(inTurn: inTurn) }
    }

    func answer() {
        var isAnswered = false
        let hadToWait = awaitsHeads
        allowance.beginSlice()
        guarded {
            // A page that was asked for before goes first.
            while let question = questions.first, screen.isEmpty || PlantedBug.overtakePage.isPlanted, allowance.isLeft(at: now) {
                guard allowance.isSliceLeft, hasTurn || !question.isLong else { return takeTurn() }
                isAnswered = true
                switch question {
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
        // Behind the heads a PING is on its way: until PONG a replica takes no run as it lies.
        if hadToWait, !awaitsHeads { wake() } else { pump() }
    }

    private func fetch(_ wishes: [Fetch]) throws {
        allowance.spend(Effort(events: wishes.count * Self.wishCost))
        for wish in wishes {
            // What it asks for of a log below its end, for a hole or a screen, says nothing about that end.
            if let seq = offered[wish.log], seq == 0 || wish.from > 0 && (wish.through == 0 || wish.through >= seq) { offered[wish.log] = nil }
            if feed.isUnreadable(wish.log) { continue }
            if wish.from == 0, case .conversation(let id) = wish.log {
                guard visibleSeq(wish.log) > 0 else { continue }
                let page = FirstScreen.Page(conversation: id, messages: Int(clamping: wish.through), bytesMax: FirstScreen.partBytesMax)
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
        while let item = heads.first, allowance.isLeft(at: now), allowance.isSliceLeft {
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
        guard let root = try root(of: item.log, at: size) else {
            if !isProbe, awaitsHeads { named[item.log] = .some(nil) }
            // It does not ask on.
            if offered[item.log] == 0 { offered[item.log] = nil }
            return nil
        }
        // Of names that the peer makes up nothing is remembered.
        if size == item.head.size, root == item.head.root, !isProbe {
            // What goes first is known only when all is named.
            if awaitsHeads, seq > 0 { named[item.log] = size + 1 } else if seq > size { try want(item.log, from: size + 1) }
            return nil
        }
        if seq > 0 {
            // It sets itself right, or asks on.
            offered[item.log] = 0
            if !isProbe, awaitsHeads { named[item.log] = .some(nil) }
        } else {
            denied.insert(item.log)
        }
        return HeadsFrame.Item(log: item.log, head: LogHead(size: size, root: root))
    }

    /// `nil`: it cannot be read, and the peer was told, to whom silence would say that the two are equal.
    private func root(of log: LogID, at size: Seq) throws -> Hash256? {
        if size == 0 { return CompactRange().root() }
        guard takesUnreadable else {
            var effort = Effort()
            defer { allowance.spend(effort) }
            return try hub.root(of: log, at: size, &effort)
        }
        defer { tellUnreadable() }
        return try unlessDamaged(log) { try hub.root(of: log, at: size, &$0) }
    }

    /// What the replica did not name it does not have, but for what an earlier session has told that it sent.
    private func endComparison(_ identity: Identity) throws {
        var part = 0..<0
        let entries = try awaited ?? all(identity)
        for entry in entries {
            let from = try unlessDamaged(entry.log) { _ in try named[entry.log] ?? first(of: entry) }
            guard let from = from ?? nil, visibleSeq(entry.log) >= from else { continue }
            let place = feed.waiting
            try want(entry.log, from: from)
            if entry.isPart { part = (part.isEmpty ? place : part.lowerBound)..<feed.waiting }
        }
        feed.keepTogether(part)
        // What an earlier session could not read: nothing else tells that it is missing.
        if isAllBut {
            let known = Set(entries.map(\.log))
            for case let (log, from?) in named.sorted(by: { $0.key < $1.key }) where !known.contains(log) && visibleSeq(log) >= from {
                try want(log, from: from)
            }
        }
        if case .newest = scope { screen += try FirstScreen(hub, identity, scope).pages().filter { named[.conversation($0.conversation)] == nil } }
        (named, awaited, awaitsHeads) = ([:], nil, false)
    }

    private func all(_ identity: Identity) throws -> [Awaited] {
        let (changes, now) = changes(after: 0, identity)
        cover(changes, at: now, told: nil)
        // Of newest parts only those are sent that the screen has.
        return changes.filter { change in
            if scope.isOfParts, case .conversation = change.log { return named[change.log] != nil }
            return true
        }.map { Awaited(log: $0.log, reach: 0, isPart: false) }
    }

    private func first(of entry: Awaited) throws -> Seq? {
        if entry.reach == 0 { return PlantedBug.forgetUncovered.isPlanted && awaited != nil ? nil : 1 }
        return try hub.store.log.firstSeq(of: entry.log, after: entry.reach)
    }
}
