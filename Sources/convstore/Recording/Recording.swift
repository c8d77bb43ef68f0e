import ConversationStore
import EventLog
import Glibc
import Interchange

/// Takes an answer from standard input into a streamed message, delta by delta as they come.
struct Recording {
    /// Behind the end of input a signal that ended the producer too may be on its way here.
    private static let patienceMilliseconds = 50

    let store: ConversationStore
    let conversation: ConversationID
    let author: UserID
    let id: MessageID
    let replyTo: MessageID?
    private var live = LiveStream()
    private var message: StreamedMessage?
    /// To be finished when the store is closed: a reader may take its time.
    private(set) var typist: Typist

    /// `types`: whether the text is to be seen while it comes.
    init(_ store: ConversationStore, _ conversation: ConversationID, _ author: UserID, id: MessageID, replyTo: MessageID?, types: Bool) {
        self.store = store
        self.conversation = conversation
        self.author = author
        self.id = id
        self.replyTo = replyTo
        typist = Typist(isOn: types)
    }

    /// Reads to the end of input, or to a signal; answers how many payloads were skipped. Throws `noKnownWire` when nothing of the kind came: then
    /// nothing was stored.
    mutating func run() throws -> Int {
        do {
            let interruption = try readAll()
            let ending: RecordedStream.Ending
            do {
                ending = try finish()
            } catch let error as InputError where interruption != nil && error.code == .noKnownWire {
                throw InputError(.noKnownWire, "\(interruption!) came before anything of an answer: nothing is stored")
            }
            if interruption != nil || ending == .interrupted(reason: "end_of_stream") {
                try end(ending, interruption ?? signalOnItsWay())
            } else {
                try end(ending, nil)
            }
        } catch {
            typist.finish(isHasty: true)
            // What came before it stays.
            if let message { try waiting { _ = try? await message.interrupt(reason: "error") } }
            throw error
        }
        return live.skippedPayloads
    }

    /// Answers the signal that ended it, if one did.
    private mutating func readAll() throws -> String? {
        var block = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            switch Signals.wait(for: STDIN_FILENO, writes: typist.isBehind) {
            case .signal(let name):
                typist.isHasty = true
                return name
            case .writable, .readerIsGone:
                typist.show()
                continue
            case .readable, .timeout: break
            }
            let count = block.withUnsafeMutableBytes { read(STDIN_FILENO, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR || errno == EAGAIN { continue }
            guard count >= 0 else { throw Failure(.inputOutput, "standard input: \(String(cString: strerror(errno)))") }
            if count == 0 { return nil }
            var deltas: [String] = []
            try live.feed(Array(block[..<count])) { deltas.append($0.text) }
            try append(deltas)
        }
    }

    private mutating func finish() throws -> RecordedStream.Ending {
        var deltas: [String] = []
        let ending = try live.finish { deltas.append($0.text) }
        try append(deltas)
        return ending
    }

    private mutating func signalOnItsWay() -> String? {
        guard case .signal(let name) = Signals.wait(milliseconds: Self.patienceMilliseconds) else { return nil }
        typist.isHasty = true
        return name
    }

    private mutating func append(_ deltas: [String]) throws {
        if deltas.isEmpty { return }
        let message = try opened()
        // What is seen here is kept: deltas that came together share a commit.
        try waiting {
            for delta in deltas { for part in Self.parts(of: delta) { try await message.append(part) } }
            try await message.flush()
        }
        for delta in deltas { typist.type(delta) }
        typist.show()
    }

    /// A delta as chunks: one that is larger than an event's text may be is cut between characters.
    private static func parts(of delta: String) -> [String] {
        if delta.utf8.count <= EventLimits.textBytesMax { return [delta] }
        var parts: [String] = []
        var rest = Substring(delta)
        while !rest.isEmpty {
            var end = rest.utf8.index(rest.startIndex, offsetBy: EventLimits.textBytesMax, limitedBy: rest.endIndex) ?? rest.endIndex
            while end.samePosition(in: delta.unicodeScalars) == nil { end = delta.utf8.index(before: end) }
            parts.append(String(rest[..<end]))
            rest = rest[end...]
        }
        return parts
    }

    /// A stream without any text still is a message.
    private mutating func opened() throws -> StreamedMessage {
        if let message { return message }
        let (store, conversation, author, id, replyTo) = (store, conversation, author, id, replyTo)
        let opened = try waiting { try await store.startMessage(in: conversation, from: author, id: id, replyTo: replyTo) }
        message = opened
        return opened
    }

    private mutating func end(_ ending: RecordedStream.Ending, _ signal: String?) throws {
        let message = try opened()
        try waiting {
            switch ending {
            case .completed(let reason): _ = try await message.complete(finishReason: reason)
            case .interrupted(let reason): _ = try await message.interrupt(reason: signal ?? reason)
            }
        }
    }
}

/// Types a text to standard output, harmless, as it comes. Who stops reading, or reads slowly, stops nothing.
struct Typist {
    /// A reader that takes nothing for so long is not waited for, if somebody is in haste.
    private static let patienceMilliseconds = 300

    private(set) var isOn: Bool
    /// Whether the reader has not taken all yet.
    private(set) var isBehind = false
    /// Whether a signal has ended what is typed.
    var isHasty = false
    private var last: Unicode.Scalar = "\n"
    /// A CR came last: a line ends there if an LF follows.
    private var holdsReturn = false

    init(isOn: Bool) { self.isOn = isOn }

    mutating func type(_ text: String) {
        guard isOn else { return }
        var text = (holdsReturn ? "\r" : "") + text
        holdsReturn = text.unicodeScalars.last == "\r"
        if holdsReturn { text.unicodeScalars.removeLast() }
        StandardOutput.shared.write(TextWrap.harmless(text, after: last))
        last = text.unicodeScalars.last ?? last
    }

    mutating func show() {
        guard isOn else { return }
        do { isBehind = try !StandardOutput.shared.flushWhatFits() } catch { stop() }
    }

    /// Ends the line, and waits until all is read; in haste only for a reader that goes on reading.
    mutating func finish(isHasty: Bool = false) {
        guard isOn else { return }
        if last != "\n" { StandardOutput.shared.write("\n") }
        (last, holdsReturn) = ("\n", false)
        do {
            if isHasty || self.isHasty {
                if try !StandardOutput.shared.flushWhatFits(milliseconds: Self.patienceMilliseconds) { stop() }
            } else {
                try StandardOutput.shared.flush()
            }
        } catch { stop() }
    }

    private mutating func stop() {
        (isOn, isBehind) = (false, false)
        StandardOutput.shared.drop()
    }
}
