/// Which providers' wires a stream is read as.
public enum StreamWires: Sendable {
    /// Those of which `import --format stream` makes files: OpenAI chat chunks, OpenAI Responses, Anthropic Messages, Gemini.
    case files
    /// Those and, as `convstore record` takes them, OpenAI completions, Gemini Interactions, and the words of what is spoken over OpenAI Realtime and
    /// Gemini Live.
    case live

    var names: StaticString {
        switch self {
        case .files: "OpenAI chat chunks, OpenAI Responses, Anthropic Messages, Gemini"
        case .live: "OpenAI chat chunks, Responses, completions or Realtime, Anthropic Messages, Gemini, its Interactions or Live"
        }
    }
}

/// What one payload of an AI stream says: of whichever wire it is, or of none.
struct StreamPayload {
    /// Visible text of the answer; empty if the payload carries none.
    var text = ""
    /// Whether it is of a wire known here.
    var isKnown = false
    var isError = false
    /// What an error payload says for people.
    var complaint: String?
    /// Whether it is a whole answer, as a provider gives that was not asked for a stream.
    var isWhole = false
    /// What its end mark says, if it has one.
    var end: String?
    /// Milliseconds since 1970.
    var at: UInt64?

    /// Reads a payload; `nil` if it is not a JSON object.
    init?(_ bytes: UnsafeBufferPointer<UInt8>, _ wires: StreamWires) {
        guard !bytes.isEmpty else { return nil }
        let json = JSONText(bytes)
        guard let root = json.root(), root.kind == .object else { return nil }
        let type = json.member("type", of: root)
        at = Self.time(json, root)
        isError = json.spells(type, "error") || !json.member("error", of: root).isNone
        if isError { complaint = Self.complaint(json, root) }
        let object = json.member("object", of: root)
        if json.spells(object, "chat.completion.chunk") {
            readChatChunk(json, root)
        } else if json.spells(object, "text_completion") {
            if wires == .live { readCompletion(json, root) }
        } else if wires == .live, readLive(json, root, type) {
            return
        } else if Self.begins(json, type, "response.") {
            readResponse(json, root, type)
        } else if Self.anthropicTypes.contains(where: { json.spells(type, $0) }) {
            readAnthropic(json, root, type)
        } else if json.member("candidates", of: root).kind != .absent || json.member("promptFeedback", of: root).kind != .absent {
            readGemini(json, root)
        } else if json.member("choices", of: root).kind != .absent {
            readChatChunk(json, root)
        }
    }

    private static let anthropicTypes: [StaticString] = [
        "content_block_delta", "content_block_start", "content_block_stop", "message_start", "message_delta", "message_stop",
    ]

    /// OpenAI chat chunks: the choice with index 0, or without one; the end mark of any.
    private mutating func readChatChunk(_ json: JSONText, _ root: JSONValue) {
        isKnown = true
        json.forEachElement(of: json.member("choices", of: root)) { choice in
            isWhole = isWhole || json.member("message", of: choice).kind == .object && json.member("delta", of: choice).isNone
        }
        json.forEachElement(of: json.member("choices", of: root)) { choice in
            if end == nil { end = Self.mark(json, json.member("finish_reason", of: choice)) }
        }
        // Alone it is no stream; within one its end mark counts.
        if isWhole {
            isKnown = false
            return
        }
        var isChosen = false
        json.forEachElement(of: json.member("choices", of: root)) { choice in
            let index = json.member("index", of: choice)
            guard !isChosen, choice.kind == .object, index.isNone || json.unsigned(index) == 0 else { return }
            isChosen = true
            let content = json.member("content", of: json.member("delta", of: choice))
            if let whole = json.repairedText(content) { text = whole }
            json.forEachElement(of: content) { part in
                if json.spells(json.member("type", of: part), "text") { text += json.repairedText(json.member("text", of: part)) ?? "" }
            }
        }
    }

    /// OpenAI Responses: the text of all output items.
    private mutating func readResponse(_ json: JSONText, _ root: JSONValue, _ type: JSONValue) {
        isKnown = true
        if json.spells(type, "response.output_text.delta") { text = json.repairedText(json.member("delta", of: root)) ?? "" }
        if json.spells(type, "response.completed") || json.spells(type, "response.incomplete") || json.spells(type, "response.failed") {
            end = json.repairedText(type)
        }
    }

    /// Anthropic Messages: text deltas, no thinking and no tool input.
    private mutating func readAnthropic(_ json: JSONText, _ root: JSONValue, _ type: JSONValue) {
        isKnown = true
        if json.spells(type, "message_stop") { end = "message_stop" }
        guard json.spells(type, "content_block_delta") else { return }
        let delta = json.member("delta", of: root)
        if json.spells(json.member("type", of: delta), "text_delta") { text = json.repairedText(json.member("text", of: delta)) ?? "" }
    }

    /// Gemini: the first candidate's parts that are not thoughts; the end mark of any candidate.
    private mutating func readGemini(_ json: JSONText, _ root: JSONValue) {
        isKnown = true
        var isFirst = true
        json.forEachElement(of: json.member("candidates", of: root)) { candidate in
            if end == nil { end = Self.mark(json, json.member("finishReason", of: candidate)) }
            guard isFirst else { return }
            isFirst = false
            json.forEachElement(of: json.member("parts", of: json.member("content", of: candidate))) { part in
                guard json.member("thought", of: part).kind != .true else { return }
                text += json.repairedText(json.member("text", of: part)) ?? ""
            }
        }
    }

    /// `error.message`, `error` or `message`, where it is a text.
    private static func complaint(_ json: JSONText, _ root: JSONValue) -> String? {
        let error = json.member("error", of: root)
        let said = [json.member("message", of: error), error, json.member("message", of: root)].lazy.compactMap { json.repairedText($0) }
        return said.first { !$0.isEmpty }
    }

    static func mark(_ json: JSONText, _ value: JSONValue) -> String? {
        guard let text = json.repairedText(value), !text.isEmpty else { return nil }
        return text
    }

    static func begins(_ json: JSONText, _ value: JSONValue, _ prefix: String) -> Bool {
        json.repairedText(value)?.utf8.starts(with: prefix.utf8) ?? false
    }

    /// `created` or `created_at`, in seconds, of the payload or of its `response`.
    private static func time(_ json: JSONText, _ root: JSONValue) -> UInt64? {
        let response = json.member("response", of: root)
        for value in [json.member("created", of: root), json.member("created_at", of: root), json.member("created_at", of: response)] {
            if let seconds = json.unsigned(value), seconds <= Timestamp.maximum / 1000 { return seconds * 1000 }
            if value.kind == .float, let seconds = Double(json.plainText(value)), seconds >= 0, seconds < Double(Timestamp.maximum / 1000) {
                return UInt64(seconds * 1000)
            }
            if let text = json.repairedText(value), let time = Array(text.utf8).withUnsafeBufferPointer(Timestamp.parseLoosely) {
                return time
            }
        }
        return nil
    }
}
