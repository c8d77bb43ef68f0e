import ConversationStore
import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// One line to descriptor 1 with write(2), which the recorder sees: what a store has promised by now.
///
///     a KIND LOG SEQ DIGEST   an event is durable
///     B LOG SEQ               an erasure begins: from here on the body may be gone
///     e LOG SEQ               the erasure is durable: the body must be gone
///     r REPLICA COUNTER       a refusal was answered to this origin: a repeat must get the same answer
func acknowledge(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    bytes.withUnsafeBytes { _ = write(1, $0.baseAddress!, $0.count) }
}

/// FNV-1a of the canonical bytes.
func digest(_ record: RecordedEvent) -> String {
    let (envelope, body) = EventCodec.encode(record)
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in envelope { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    for byte in body { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    return String(hash, radix: 16)
}

/// Seeded randomness (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}

/// A short and varied life of a store: everything that writes is in it, several times.
struct Scenario {
    static let replica = ReplicaID(high: 0x5C, low: 1)
    /// A small journal, so that flushes, and saves of the projections' rows, are many.
    static let options = ConversationStoreOptions(journalBytesMax: 64 << 10, projections: [Control.chosen == .fold ? ForgetfulCounts.self : LogCounts.self])

    let directory: String
    private var random: SeededGenerator
    private var store: ConversationStore
    private var options: ConversationStoreOptions
    private var conversations: [ConversationID] = []
    private var messages: [(conversation: ConversationID, message: MessageID, seq: Seq)] = []
    private var counters: [LogID: UInt64] = [:]
    private var batches = 0
    private let isRelaxed: Bool

    init(directory: String, seed: UInt64) throws {
        self.directory = directory + "/s"
        random = SeededGenerator(state: seed)
        isRelaxed = Control.chosen == .sync
        options = Self.options
        if isRelaxed { options.durability = .relaxed(interval: .seconds(3600)) }
        store = try ConversationStore.open(at: self.directory, options: options)
    }

    mutating func run() throws {
        try talk(40)
        try store.log.flush()
        try talk(30)
        try refuse(5)
        try erase()
        try talk(20)
        try reopen()
        try stream(40)
        try batch()
        try store.log.flush()
        // Rows are saved with flushes, and in between while a message is streamed on.
        try stream(60, isLong: true)
        try store.log.flush()
        try store.rebuild()
        try erase()
        try batch()
        // Texts that do not compress, so that the archive outgrows its first map.
        try large(9)
        try reopen()
        try refuse(60)
        try talk(15)
        try store.log.flush()
        try stream(20)
        try store.rebuild()
        try talk(10)
        try store.close()
        _ = try EventStore.compact(at: directory)
        store = try ConversationStore.open(at: directory, options: options)
        try talk(10)
        try store.close()
    }

    private mutating func reopen() throws {
        try store.close()
        store = try ConversationStore.open(at: directory, options: options)
    }

    private mutating func text(_ words: Int) -> String {
        (0..<words).map { _ in ["yes", "no", "tomorrow", "lunch", "the build is green", "naïve café", "東京", "🙂"].randomElement(using: &random)! }.joined(
            separator: " ")
    }

    private mutating func submission(_ conversation: ConversationID, _ author: String, _ content: Event.Content) -> Submission {
        let event = Event(conversation: conversation, author: UserID(author)!, content: content)
        guard Int.random(in: 0..<2, using: &random) == 0 else { return Submission(event) }
        counters[event.log, default: 0] += 1
        let counter = counters[event.log]!
        return Submission(event, origin: Origin(replica: Self.replica, counter: counter, hlc: HLC(milliseconds: 1_700_000_000_000 + counter)))
    }

    private mutating func message() -> MessageID { MessageID(high: random.next() & ~0xF000 | 0x4000, low: random.next()) }

    /// Appends, and acknowledges what was answered as durable.
    @discardableResult
    private mutating func append(_ submissions: [Submission], isAtomic: Bool = false) throws -> [Receipt] {
        var receipts: [Receipt] = []
        var lines: [String] = []
        for (outcome, submission) in zip(try store.log.appendBlocking(submissions, isAtomic: isAtomic), submissions) {
            guard case .accepted(let receipt) = outcome else { throw EventLogError(.invalidArgument, "scenario: \(outcome)") }
            receipts.append(receipt)
            guard case .conversation(let id) = submission.event.log else { continue }
            var record = RecordedEvent(
                log: submission.event.log, seq: receipt.seq, position: receipt.position,
                origin: Origin(replica: ReplicaID(high: 0, low: 0), counter: 0, hlc: receipt.hlc),
                hlc: receipt.hlc, event: submission.event, targetSeq: nil)
            if !isRelaxed, let read = try store.log.event(in: submission.event.log, at: receipt.seq) {
                guard read.event == submission.event else { throw EventLogError(.damaged, "scenario: seq \(receipt.seq) reads as another event") }
                record = read
            }
            lines.append("a \(id) \(receipt.seq) \(isRelaxed ? "-" : digest(record))")
        }
        for line in lines { acknowledge(line) }
        return receipts
    }

    private mutating func talk(_ count: Int) throws {
        for _ in 0..<count {
            if conversations.count < 3 || Int.random(in: 0..<12, using: &random) == 0 {
                let id = ConversationID(high: random.next() & ~0xF000 | 0x4000, low: random.next())
                try append([submission(id, "ann", .conversationCreated(kind: .group, title: text(3), participants: [UserID("ann")!, UserID("bob")!]))])
                conversations.append(id)
                continue
            }
            let id = conversations.randomElement(using: &random)!
            let mine = message()
            let words = Int.random(in: 0...30, using: &random)
            let receipts = try append([
                submission(id, ["ann", "bob"].randomElement(using: &random)!, .messageSent(Event.Message(id: mine, role: .user, text: text(words))))
            ])
            messages.append((id, mine, receipts[0].seq))
            if Int.random(in: 0..<6, using: &random) == 0 {
                try append([
                    submission(id, "ann", .reactionSet(message: mine, emoji: "👍", isOn: true)), submission(id, "bob", .receiptRead(upTo: mine)),
                    submission(id, "bob", .preferenceSet(key: "pinned", value: text(1))),
                ])
            }
        }
    }

    /// A message in chunks: of two words, or long ones between which the archive is flushed, by size and by request.
    private mutating func stream(_ chunks: UInt32, isLong: Bool = false) throws {
        let id = conversations[0]
        let mine = message()
        try append([submission(id, "bob", .messageSent(Event.Message(id: mine, role: .assistant, text: "", isStreaming: true)))])
        for index in 0..<chunks {
            try append([submission(id, "bob", .chunkAppended(message: mine, index: index, text: text(isLong ? 120 : 2)))])
            if isLong, index % 17 == 16 { try store.log.flush() }
        }
        try append([submission(id, "bob", .messageCompleted(message: mine, finishReason: "stop", usage: Event.Usage(inputTokens: 3, outputTokens: 40)))])
    }

    /// An atomic batch over several logs; each text says of which batch it is and how many there are.
    private mutating func batch() throws {
        batches += 1
        let count = 9
        var submissions: [Submission] = []
        for part in 0..<count {
            let id = conversations[part % conversations.count]
            submissions.append(
                submission(id, "ann", .messageSent(Event.Message(id: message(), role: .user, text: "batch \(batches) \(count) \(part) " + text(60)))))
        }
        try append(submissions, isAtomic: true)
    }

    private mutating func large(_ count: Int) throws {
        for _ in 0..<count {
            let bytes = (0..<6000).map { _ in random.next() }
            let text = bytes.map { String($0, radix: 36) }.joined()
            let id = conversations.randomElement(using: &random)!
            try append([submission(id, "ann", .messageSent(Event.Message(id: message(), role: .user, text: text)))])
        }
    }

    /// Refusals append nothing, but are remembered.
    private mutating func refuse(_ count: Int) throws {
        for _ in 0..<count {
            let id = conversations.randomElement(using: &random)!
            counters[.conversation(id), default: 0] += 1
            let counter = counters[.conversation(id)]!
            let event = Event(conversation: id, author: UserID("ann")!, content: .messageDeleted(message: MessageID(high: 1, low: 1)))
            let origin = Origin(replica: Self.replica, counter: counter, hlc: HLC(milliseconds: 1_700_000_000_000))
            guard case .refused = try store.log.appendBlocking([Submission(event, origin: origin)])[0] else {
                throw EventLogError(.invalidArgument, "scenario: accepted")
            }
            acknowledge("r \(id) \(counter)")
        }
    }

    private mutating func erase() throws {
        guard !isRelaxed else { return }
        let (id, _, seq) = messages.remove(at: Int.random(in: 0..<messages.count, using: &random))
        acknowledge("B \(id) \(seq)")
        try store.log.erase(log: .conversation(id), seq: seq)
        acknowledge("e \(id) \(seq)")
    }
}
