import EventLog
import Interchange

/// Events as people read a conversation; a streamed message's chunks go on where the last one ended.
struct Transcript {
    private var log: LogID?
    /// The message whose chunks are being written, at the end of an open line.
    private var open: MessageID?

    mutating func write(_ event: RecordedEvent) throws {
        if event.log != log {
            try closeLine()
            log = event.log
            try StandardOutput.shared.writeLine(Style.bold("── " + Sanitizer.harmless(event.log.description) + " ──"))
        }
        switch event.event.content {
        case .messageSent(let message):
            try begin(event, message.role)
            StandardOutput.shared.write(text(event, message.text))
            if message.isStreaming { open = message.id } else { try StandardOutput.shared.writeLine("") }
        case .chunkAppended(let message, _, let text):
            if open != message {
                try begin(event, .assistant)
                StandardOutput.shared.write("… ")
                open = message
            }
            try StandardOutput.shared.write { $0.append(contentsOf: self.text(event, text).utf8) }
        case .messageCompleted(let message, let reason, _):
            if open == message { return try closeLine() }
            try note(event, "message completed" + (reason.map { " (\($0))" } ?? ""))
        case .messageInterrupted(_, let reason): try note(event, "message interrupted (\(reason))")
        case .conversationCreated(let kind, let title, let people):
            try note(event, "\(kind) conversation" + (title.map { " “\($0)”" } ?? "") + " of " + people.map(\.string).joined(separator: ", "))
        case .conversationUpdated(let title, let attributes):
            let changes = (title.map { ["title “\($0)”"] } ?? []) + attributes.map { "\($0.name) = \($0.value ?? "nothing")" }
            try note(event, "changed " + changes.joined(separator: ", "))
        case .participantJoined(let user): try note(event, "\(user) joined")
        case .participantLeft(let user): try note(event, "\(user) left")
        case .messageEdited(let message, let text): try note(event, "edited \(message.short): \(text)")
        case .messageDeleted(let message): try note(event, "deleted \(message.short)")
        case .reactionSet(let message, let emoji, let isOn): try note(event, "\(isOn ? "reacted" : "no longer reacts") \(emoji) to \(message.short)")
        case .receiptDelivered(let message): try note(event, "received all up to \(message.short)")
        case .receiptRead(let message): try note(event, "read all up to \(message.short)")
        case .preferenceSet(let key, let value): try note(event, "prefers \(key) = \(value ?? "nothing")")
        case .custom(let name, let payload): try note(event, "\(name) (\(payload.count) bytes)")
        case .unknown(let kind, let body): try note(event, "an event of unknown kind \(kind) (\(body.count) bytes)")
        }
    }

    mutating func finish() throws { try closeLine() }

    private mutating func begin(_ event: RecordedEvent, _ role: Event.Role) throws {
        try closeLine()
        let author = Sanitizer.harmless(event.event.author.string)
        StandardOutput.shared.write(
            Style.dim(time(event)) + "  " + (role == .user ? Style.bold(author) : Style.cyan(author)) + "  ")
    }

    private mutating func note(_ event: RecordedEvent, _ text: String) throws {
        try closeLine()
        let author = Sanitizer.harmless(event.event.author.string)
        try StandardOutput.shared.writeLine(Style.dim("\(time(event))  \(author)  · " + Sanitizer.harmless(text)))
    }

    private mutating func closeLine() throws {
        if open != nil { try StandardOutput.shared.writeLine("") }
        open = nil
    }

    /// Further lines of a text are indented, so that none of them can pass for an event.
    private func text(_ event: RecordedEvent, _ text: String) -> String {
        if event.isErased { return Style.dim("[erased]") }
        let harmless = Sanitizer.harmless(text, keepsNewlines: true)
        guard harmless.utf8.contains(0x0A) else { return harmless }
        return harmless.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "\n    ")
    }

    private func time(_ event: RecordedEvent) -> String {
        let text = Timestamp.string(event.origin.hlc.milliseconds)
        return String(text.prefix(10)) + " " + String(text.dropFirst(11).prefix(8))
    }
}

extension Identifier {
    /// The beginning, for people.
    fileprivate var short: String { String(description.prefix(8)) }
}
