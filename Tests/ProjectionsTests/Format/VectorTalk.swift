@testable import EventLog
@testable import Projections

/// Events whose fold has a row of each kind with each of its fields; folded by the projection, and encoded as a flush does it.
struct VectorTalk {
    static let (ada, bot, çağla) = (UserID("ada")!, UserID("bot")!, UserID("çağla")!)
    static let talk = ConversationID("018f5c2e-7b1a-7c3d-8e4f-0123456789ab")!
    static let empty = ConversationID("018f5c2e-7b1a-7c3d-8e4f-0123456789ac")!
    static let long = ConversationID("118f5c2e-7b1a-7c3d-8e4f-0123456789ad")!
    static let huge = ConversationID("218f5c2e-7b1a-7c3d-8e4f-0123456789ae")!
    private static let replica = ReplicaID("c0ffee00-1234-4abc-8def-00112233aabb")!
    private static let start: UInt64 = 1_700_000_000_000

    private let projection: Conversations
    private let tables: [AnyTable]
    private var seqs: [ConversationID: Seq] = [:]
    private var position: Position = 0

    private init() {
        var tables = ProjectionTables(source: nil)
        projection = Conversations(tables: &tables)
        self.tables = tables.tables
    }

    private static func message(_ number: Int) -> MessageID {
        // Not alike: ids of real messages do not compress.
        MessageID(bytes: (0..<16).map { UInt8(truncatingIfNeeded: (number * 31 + $0 * 89 + 7) * (number * 57 + $0 * $0 * 13 + 101)) })!
    }

    /// `at`: milliseconds of the author's clock after the talk's begin; the hub's is 5 ms later.
    @discardableResult
    private mutating func say(
        _ author: UserID, _ content: Event.Content, in log: ConversationID = talk, at: UInt64, about target: Seq? = nil, isErased: Bool = false
    ) throws -> Seq {
        position += 1
        let isOwn = content.kind == .preferenceSet
        let seq = isOwn ? position : (seqs[log] ?? 0) + 1
        if !isOwn { seqs[log] = seq }
        try projection.apply(
            RecordedEvent(
                log: isOwn ? .user(author) : .conversation(log), seq: seq, position: position,
                origin: Origin(replica: Self.replica, counter: position, hlc: HLC(rawValue: (Self.start + at) << 16 | 1)),
                hlc: HLC(rawValue: (Self.start + at + 5) << 16 | 2), event: Event(conversation: log, author: author, content: content), targetSeq: target,
                isErased: isErased))
        return seq
    }

    private mutating func send(
        _ author: UserID, _ number: Int, _ text: String, _ role: Event.Role = .user, in log: ConversationID = talk, at: UInt64, streaming: Bool = false,
        replyTo: Int? = nil, parts: String? = nil, isErased: Bool = false
    ) throws -> Seq {
        try say(
            author,
            .messageSent(
                Event.Message(
                    id: Self.message(number), role: role, text: text, isStreaming: streaming, replyTo: replyTo.map { Self.message($0) }, parts: parts)),
            in: log, at: at, isErased: isErased)
    }

    /// One conversation with everything, still on its first page.
    private mutating func talkOfEverything() throws {
        let (ada, bot, çağla) = (Self.ada, Self.bot, Self.çağla)
        try say(ada, .conversationCreated(kind: .group, title: "Çay", participants: [bot]), at: 0)
        try say(ada, .conversationUpdated(title: "Çay & LMDB", attributes: [.init(name: "colour", value: "teal"), .init(name: "pin", value: "x")]), at: 10)
        try say(ada, .conversationUpdated(title: nil, attributes: [.init(name: "pin", value: nil)]), at: 20)
        try say(ada, .participantJoined(çağla), at: 30)
        let system = try send(bot, 1, "You are terse.", .system, at: 40)
        let question = try send(ada, 2, "What is LMDB? 😀", at: 50, parts: "[{\"type\":\"image\"}]")
        let answer = try send(bot, 3, "", .assistant, at: 60, streaming: true, replyTo: 2)
        for (index, text) in ["A memory-mapped ", "B+tree."].enumerated() {
            try say(bot, .chunkAppended(message: Self.message(3), index: UInt32(index), text: text), at: 70, about: answer)
        }
        let usage = Event.Usage(inputTokens: 300, outputTokens: 7)
        try say(bot, .messageCompleted(message: Self.message(3), finishReason: "stop", usage: usage), at: 80, about: answer)
        try say(ada, .reactionSet(message: Self.message(3), emoji: "👍", isOn: true), at: 90, about: answer)
        try say(çağla, .reactionSet(message: Self.message(3), emoji: "👍", isOn: true), at: 91, about: answer)
        try say(çağla, .reactionSet(message: Self.message(3), emoji: "👍", isOn: false), at: 92, about: answer)
        // A clock that goes back.
        let edited = try send(çağla, 4, "tipo", at: 45)
        try say(çağla, .messageEdited(message: Self.message(4), text: "typo"), at: 100, about: edited)
        let blackened = try send(ada, 5, "secret", at: 101)
        try say(ada, .messageEdited(message: Self.message(5), text: ""), at: 102, about: blackened, isErased: true)
        _ = try send(ada, 6, "", at: 103, isErased: true)
        let deleted = try send(çağla, 7, "never mind", at: 104)
        try say(çağla, .messageDeleted(message: Self.message(7)), at: 105, about: deleted)
        let stopped = try send(bot, 8, "", .assistant, at: 106, streaming: true)
        try say(bot, .chunkAppended(message: Self.message(8), index: 0, text: "It "), at: 107, about: stopped)
        try say(ada, .messageInterrupted(message: Self.message(8), reason: "stop"), at: 108, about: stopped)
        try say(ada, .receiptDelivered(upTo: Self.message(3)), at: 109, about: answer)
        try say(çağla, .receiptRead(upTo: Self.message(8)), at: 110, about: stopped)
        try say(çağla, .participantLeft(çağla), at: 111)
        try say(ada, .preferenceSet(key: "muted", value: "until-monday"), at: 112)
        try say(ada, .preferenceSet(key: "wallpaper", value: "sea"), at: 113)
        try say(ada, .preferenceSet(key: "wallpaper", value: nil), at: 114)
        let open = try send(bot, 9, "", .assistant, at: 115, streaming: true, replyTo: 2)
        try say(bot, .chunkAppended(message: Self.message(9), index: 0, text: String(repeating: "word ", count: 30)), at: 116, about: open)
        try say(ada, .receiptRead(upTo: Self.message(1)), at: 117, about: system)
        try say(bot, .receiptRead(upTo: Self.message(2)), at: 118, about: question)
    }

    /// Three pages: one full of messages, one full of text, and the open one.
    private mutating func longTalk() throws {
        let words = "the quick brown fox jumps over a lazy dog and asks what a memory mapped tree of pages is good for".split(separator: " ")
        try say(Self.ada, .conversationCreated(kind: .direct, title: nil, participants: [Self.bot]), in: Self.long, at: 1000)
        for number in 0..<16 {
            let text = (0...number).map { words[($0 * 7 + number * 3) % words.count] }.joined(separator: " ")
            let author = number % 2 == 0 ? Self.ada : Self.bot
            _ = try send(author, 20 + number, text, number % 2 == 0 ? .user : .assistant, in: Self.long, at: 1001 + UInt64(number) * 900)
        }
        _ = try send(Self.ada, 40, String(repeating: "A page is full with 8 KiB of text. ", count: 260), in: Self.long, at: 20_000)
        _ = try send(Self.bot, 41, "Then I begin another.", .assistant, in: Self.long, at: 21_000)
        try say(Self.ada, .messageDeleted(message: Self.message(21)), in: Self.long, at: 22_000, about: 3)
    }

    static func make() throws -> RowVectors {
        var talk = VectorTalk()
        try talk.talkOfEverything()
        try talk.say(ada, .conversationCreated(kind: .assistant, title: nil, participants: []), in: empty, at: 500)
        try talk.longTalk()
        // One so long that every second fence is gone, with more system messages than a row keeps. Its pages are no part of the vectors.
        try talk.projection.rows.update(huge) { row in
            row = ConversationRow()
            for page in 0...300 as ClosedRange<Seq> {
                row!.addPage(firstSeq: 2 + page * 20)
                row!.live += 16
                row!.messages += 16
            }
            row!.systems = [0, 5000, 5100, 5900, 6000]
            row!.seq = 7000
            let message = MessageRow(id: message(91), seq: row!.openFirstSeq, author: 0, role: .user, state: .complete, sentAt: start, text: "x")
            _ = row!.addPerson(ada)
            try row!.open.append(message)
        }
        // Short pages need not be compressed, whatever wrote them.
        let short = PageKey(long, 70_000)
        try talk.projection.pages.update(short) { page in
            page = PageRow()
            try page!.append(MessageRow(id: message(90), seq: 1 << 40, author: 1, role: .tool, state: .complete, sentAt: start, text: "42"))
        }
        return try talk.vectors()
    }

    private func vectors() throws -> RowVectors {
        var vectors = RowVectors(
            projection: Conversations.name, version: Conversations.version, records: [], conversations: [], pages: [], members: [], streams: [])
        let generation = FoldRecord.Generation(version: 1, number: 1, position: 5_000_000_000)
        var record = FoldRecord()
        let key = FoldRecord.key(Conversations.name)
        for isBuilding in [false, true] {
            record.live = generation
            record.building = isBuilding ? FoldRecord.Generation(version: 2, number: 0, position: 300) : nil
            vectors.records.append(RowVectors.Record(Conversations.name, record, key: key, bytes: Archive.sealed(key, record.encoded)))
        }
        vectors.records.append(RowVectors.Record(Conversations.name, FoldRecord(), key: key, bytes: Archive.sealed(key, FoldRecord().encoded)))

        // As a flush writes them: so the keys have the prefixes that it gives.
        var batch = RowBatch()
        for table in tables { try table.freeze().encode(into: &batch) }
        for row in batch.rows {
            guard let range = row.value else { continue }
            let bytes = Array(batch.bytes.bytes[range])
            try row.key.withUnsafeBytes { key in
                let rest = UnsafeRawBufferPointer(rebasing: key.dropFirst())
                switch key[0] {
                case 0:
                    let id = ConversationID(keyBytes: rest)!
                    vectors.conversations.append(try RowVectors.Conversation(id, projection.rows.row(at: id)!, key: row.key, bytes: bytes))
                case 1:
                    let place = PageKey(keyBytes: rest)!
                    vectors.pages.append(try RowVectors.Page(projection.pages.row(at: place)!, place, key: row.key, bytes: bytes))
                case 2:
                    let place = MemberKey(keyBytes: rest)!
                    let user = [Self.ada, Self.bot, Self.çağla].first { UserHash($0) == place.user }!
                    vectors.members.append(Self.describe(user, place, try projection.members.row(at: place)!, key: row.key, bytes: bytes))
                default:
                    let place = PageKey(keyBytes: rest)!
                    vectors.streams.append(Self.describe(place, try projection.streams.row(at: place)!, key: row.key, bytes: bytes))
                }
            }
        }
        return vectors
    }

    static func describe(_ user: UserID, _ place: MemberKey, _ row: MemberRow, key: [UInt8], bytes: [UInt8]) -> RowVectors.Member {
        RowVectors.Member(
            user: user.string, conversation: place.conversation.description, isIn: row.isIn,
            preferences: row.preferences.map { RowVectors.Register($0.key, $0.value) }, key: hexadecimal(key), bytes: hexadecimal(bytes))
    }

    static func describe(_ place: PageKey, _ row: StreamRow, key: [UInt8], bytes: [UInt8]) -> RowVectors.Stream {
        RowVectors.Stream(
            conversation: place.conversation.description, seq: place.number, message: row.message.description, author: row.author.string,
            replica: row.replica.description, key: hexadecimal(key), bytes: hexadecimal(bytes))
    }
}
