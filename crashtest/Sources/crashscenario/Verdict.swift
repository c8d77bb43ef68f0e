import ConversationStore
import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// What is wrong with a state.
struct Bad: Error { let why: String }

/// Judges a directory after a crash: what was acknowledged is there, nothing is half there, everything adds up, and work can go on.
enum Verdict {
    /// The acknowledgements of the run being judged: read once.
    private nonisolated(unsafe) static var lines: (path: String, all: [[Substring]]) = ("", [])

    static func of(_ directory: String, acks: String, count: Int) -> String {
        words {
            if lines.path != acks { lines = (acks, try read(acks)) }
            try judge(directory + "/s", Array(lines.all.prefix(count)))
        }
    }

    /// The answer to who asks for a verdict.
    static func words(_ judge: () throws -> Void) -> String {
        do {
            try judge()
            return "ok"
        } catch let error as Bad {
            return "bad: \(error.why)"
        } catch {
            return "bad: \("\(error)".split(separator: "\n").joined(separator: " "))"
        }
    }

    static func read(_ path: String) throws -> [[Substring]] {
        guard let file = fopen(path, "r") else { throw Bad(why: "no file of acknowledgements") }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while case let got = fread(&buffer, 1, buffer.count, file), got > 0 { bytes += buffer[..<got] }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { $0.split(separator: " ") }
    }

    private static func judge(_ path: String, _ acks: [[Substring]]) throws {
        if access(path, F_OK) != 0 {
            // A crash before the store had its name leaves none.
            guard acks.isEmpty else { throw Bad(why: "the store is gone, \(acks.count) acknowledgements were made") }
            return try ConversationStore.open(at: path, options: Scenario.options).close()
        }
        try checkSaved(path, acks)
        // What opens it first finds the rows as the crash left them; one in four times that is a store that knows no projections, and leaves them behind.
        if acks.count % 4 == 3 {
            try with(EventStore.open(at: path, options: StoreOptions(journalBytesMax: Scenario.options.journalBytesMax)), { try $0.close() }) { store in
                try check(store, acks)
                try goOn(store, acks)
            }
            try with(ConversationStore.open(at: path, options: Scenario.options), { try $0.close() }) { try checkFolds($0) }
        } else {
            try with(ConversationStore.open(at: path, options: Scenario.options), { try $0.close() }) { store in
                try check(store.log, acks)
                try checkFolds(store)
                try goOn(store.log, acks)
            }
        }
        // Everything, the structure of the file and all trees (I2, I6), after the store went on.
        let report = try EventStore.verify(at: path)
        guard report.isSound else { throw Bad(why: "verify: " + report.problems.prefix(3).joined(separator: "; ")) }
    }

    /// Lends a store, and closes it whatever happens.
    private static func with<Store>(_ store: Store, _ close: (Store) throws -> Void, _ body: (Store) throws -> Void) throws {
        do {
            try body(store)
        } catch {
            try? close(store)
            throw error
        }
        try close(store)
    }

    /// I4: no projection is saved further than the archive goes; and each is saved, but while the store is made or something is erased.
    private static func checkSaved(_ path: String, _ acks: [[Substring]]) throws {
        try with(EventStore.open(at: path, options: StoreOptions(access: .readOnly)), { try $0.close() }) { store in
            let statistics = try store.statistics()
            for (name, saved) in statistics.projections where saved > statistics.archivedEvents {
                throw Bad(why: "the projection \(name) is saved through \(saved), the archive ends at \(statistics.archivedEvents) (I4)")
            }
            if acks.isEmpty || acks.last![0] == "B" { return }
            for name in ["conversations", "counts"] where statistics.projections[name] == nil { throw Bad(why: "the projection \(name) is not saved (I4)") }
        }
    }

    /// I4: what is shown is the fold of the log, no event twice and none missing.
    private static func checkFolds(_ store: ConversationStore) throws {
        for name in store.projectionNames {
            guard try store.isFold(name) else { throw Bad(why: "the projection \(name) is not the fold of the log (I4)") }
        }
    }

    private static func check(_ store: EventStore, _ acks: [[Substring]]) throws {
        var events: [LogID: [(digest: String, isErased: Bool)]] = [:]
        var batches: [Substring: (wanted: Int, found: Int)] = [:]
        var position: Position = 0
        try store.replay { record in
            position += 1
            guard record.position == position else { throw Bad(why: "position \(record.position) stands where \(position) was expected") }
            guard record.seq == UInt64(events[record.log, default: []].count) + 1 else {
                throw Bad(why: "log \(record.log): seq \(record.seq) is out of place (I2)")
            }
            events[record.log, default: []].append((digest(record), record.isErased))
            if case .messageSent(let sent) = record.event.content, sent.text.hasPrefix("batch ") {
                let words = sent.text.split(separator: " ", maxSplits: 4)
                batches[words[1], default: (Int(words[2]) ?? 0, 0)].found += 1
            }
            return true
        }
        for (name, batch) in batches where batch.wanted != batch.found { throw Bad(why: "batch \(name): \(batch.found) of \(batch.wanted) events") }
        // Only what an erasure was begun for may lack its body.
        var begun: Set<[Substring]> = []
        for ack in acks where ack[0] == "B" { begun.insert(Array(ack[1...2])) }
        for ack in acks {
            guard ack[0] == "a" || ack[0] == "e", let id = ConversationID(ack[1]), let seq = Int(ack[2]) else { continue }
            guard let all = events[.conversation(id)], seq <= all.count else { throw Bad(why: "acknowledged event \(id) \(seq) is not there (I1)") }
            let event = all[seq - 1]
            if ack[0] == "e" {
                guard event.isErased else { throw Bad(why: "\(id) \(seq) was erased and is back") }
            } else if event.isErased {
                guard begun.contains([ack[1], ack[2]]) else { throw Bad(why: "\(id) \(seq) lost its body") }
            } else {
                guard ack[3] == "-" || event.digest == ack[3] else { throw Bad(why: "\(id) \(seq) reads as another event") }
            }
        }
    }

    /// The store takes one more event, and answers as before to what it refused.
    private static func goOn(_ store: EventStore, _ acks: [[Substring]]) throws {
        if let last = acks.last(where: { $0[0] == "r" }), let id = ConversationID(last[1]), let counter = UInt64(last[2]) {
            let origin = Origin(replica: Scenario.replica, counter: counter, hlc: HLC(milliseconds: 0))
            let event = Event(
                conversation: id, author: UserID("ann")!, content: .messageSent(Event.Message(id: MessageID(high: 2, low: counter), role: .user, text: "no")))
            guard case .refused(let refusal) = try store.appendBlocking([Submission(event, origin: origin)])[0], refusal.code == .unknownMessage else {
                throw Bad(why: "the refusal of \(id) \(counter) is forgotten (I3)")
            }
        }
        let id = ConversationID(high: 0x4000, low: 0xFFFF)
        let event = Event(conversation: id, author: UserID("zoe")!, content: .conversationCreated(kind: .direct, title: nil, participants: [UserID("zoe")!]))
        let before = store.lastPosition
        let outcomes = try store.appendBlocking([Submission(event)])
        guard case .accepted(let receipt) = outcomes[0], receipt.seq == 1, receipt.position == before + 1 else {
            throw Bad(why: "one more event: \(outcomes[0]), after position \(before)")
        }
        guard try store.event(in: .conversation(id), at: 1)?.event == event else { throw Bad(why: "one more event cannot be read") }
    }
}
