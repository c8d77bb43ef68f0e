public import EventLog

/// Reads one file as `import --format stream` takes it (docs/EVENTS.md, "Streams"): a conversation of one streamed message.
public enum StreamFile {
    /// Tells the file's events in order, each with its time in milliseconds since 1970 where the stream tells none `now`, and the line of the payload that
    /// it follows from: the opening events' is the first of a known wire, the closing one's the last payload.
    ///
    /// Nothing is told unless a payload is of a known wire: the file is read twice. `title` is the file's name without folders;
    /// `digest` is its ``InputFile/contentDigest()``, of which the ids are made. Answers how many payloads were skipped. Throws
    /// `noKnownWire`, `payloadTooLarge`, `unreadable`, `damaged`, `truncated`, or what `body` throws.
    @discardableResult
    public static func forEachEvent(
        of file: borrowing InputFile, digest: ContentDigest, title: String, now: UInt64, _ body: (Event, _ at: UInt64, _ line: Int) throws -> Void
    ) throws -> Int {
        var detector = StreamFramingDetector()
        try file.forEachBlock { (block) -> Void in detector.feed(block) }
        var trial = RecordedStream(framing: detector.framing, wires: .files)
        try file.forEachBlock { (block) throws(InputError) -> Void in
            try named(file.name) { () throws(InputError) in try trial.feed(block) { _ in } }
        }
        _ = try named(file.name) { () throws(InputError) in try trial.finish { _ in } }

        var events = StreamEvents(digest: digest, title: title, now: now)
        for (event, at) in events.opening(at: trial.firstAt) { try body(event, at, trial.firstLine) }
        var stream = RecordedStream(framing: detector.framing, wires: .files)
        var deltas: [RecordedStream.Delta] = []
        try file.forEachBlock { block in
            try stream.feed(block) { deltas.append($0) }
            for delta in deltas {
                let (event, at) = events.chunk(delta)
                try body(event, at, delta.line)
            }
            deltas.removeAll(keepingCapacity: true)
        }
        let ending = try stream.finish { deltas.append($0) }
        for delta in deltas {
            let (event, at) = events.chunk(delta)
            try body(event, at, delta.line)
        }
        let (event, at) = events.closing(ending, at: stream.at)
        try body(event, at, stream.lastLine)
        return stream.skippedPayloads
    }

    private static func named<Result>(_ name: String, _ body: () throws(InputError) -> Result) throws(InputError) -> Result {
        do throws(InputError) { return try body() } catch { throw InputError(error.code, "\(name): \(error.message)", line: error.line) }
    }
}

/// Turns a stream's deltas into the events of a conversation: created, a streamed message opened, its chunks, its end.
public struct StreamEvents: Sendable {
    public let conversation: ConversationID
    public let message: MessageID
    private let title: String
    private let now: UInt64
    private var index: UInt32 = 0
    private static let author = UserID("assistant")!

    /// The ids are UUIDv8 of `digest`; `now` (milliseconds since 1970) stands where the stream tells no time.
    public init(digest: ContentDigest, title: String, now: UInt64) {
        conversation = digest.identifier()
        message = digest.identifier()
        self.title = title
        self.now = now
    }

    /// The conversation's creation and the message's opening.
    public func opening(at: UInt64?) -> [(event: Event, at: UInt64)] {
        let people = [Self.author, UserID("user")!]
        let contents: [Event.Content] = [
            .conversationCreated(kind: .assistant, title: title, participants: people),
            .messageSent(Event.Message(id: message, role: .assistant, text: "", isStreaming: true)),
        ]
        return contents.map { (event($0), at ?? now) }
    }

    /// The next chunk.
    public mutating func chunk(_ delta: RecordedStream.Delta) -> (event: Event, at: UInt64) {
        defer { index += 1 }
        return (event(.chunkAppended(message: message, index: index, text: delta.text)), delta.at ?? now)
    }

    /// The message's end.
    public func closing(_ ending: RecordedStream.Ending, at: UInt64?) -> (event: Event, at: UInt64) {
        switch ending {
        case .completed(let reason): (event(.messageCompleted(message: message, finishReason: reason, usage: nil)), at ?? now)
        case .interrupted(let reason): (event(.messageInterrupted(message: message, reason: reason)), at ?? now)
        }
    }

    private func event(_ content: Event.Content) -> Event { Event(conversation: conversation, author: Self.author, content: content) }
}
