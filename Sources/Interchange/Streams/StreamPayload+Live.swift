/// The wires that are recorded as they come and of which no files are imported.
extension StreamPayload {
    /// OpenAI completions, the older wire without messages: the choice with index 0, or without one; the end mark of any.
    mutating func readCompletion(_ json: JSONText, _ root: JSONValue) {
        isKnown = true
        var isChosen = false
        json.forEachElement(of: json.member("choices", of: root)) { choice in
            if end == nil { end = Self.mark(json, json.member("finish_reason", of: choice)) }
            let index = json.member("index", of: choice)
            guard !isChosen, choice.kind == .object, index.isNone || json.unsigned(index) == 0 else { return }
            isChosen = true
            text = json.repairedText(json.member("text", of: choice)) ?? ""
        }
    }

    /// Gemini Interactions, OpenAI Realtime and Gemini Live; says whether it is one of them.
    mutating func readLive(_ json: JSONText, _ root: JSONValue, _ type: JSONValue) -> Bool {
        let event = json.member("event_type", of: root)
        if ["interaction.", "step.", "content."].contains(where: { Self.begins(json, event, $0) }) {
            readInteraction(json, root, event)
        } else if Self.begins(json, type, "session.") || Self.realtimeTypes.contains(where: { json.spells(type, $0) }) {
            readRealtime(json, root, type)
        } else if Self.liveMembers.contains(where: { json.member($0, of: root).kind == .object }) {
            readGeminiLive(json, root)
        } else {
            return false
        }
        return true
    }

    /// What Realtime's events are called that Responses do not have.
    private static let realtimeTypes: [StaticString] = [
        "response.output_audio_transcript.delta", "response.audio_transcript.delta", "response.text.delta", "response.done",
    ]
    private static let liveMembers: [StaticString] = ["setupComplete", "serverContent"]

    /// One that was cancelled has no end mark. Text of the steps, which the first version of the wire called contents; thoughts and tools have deltas of other types.
    private mutating func readInteraction(_ json: JSONText, _ root: JSONValue, _ event: JSONValue) {
        isKnown = true
        if json.spells(event, "step.delta") || json.spells(event, "content.delta") {
            let delta = json.member("delta", of: root)
            if json.spells(json.member("type", of: delta), "text") { text = json.repairedText(json.member("text", of: delta)) ?? "" }
        }
        if json.spells(event, "interaction.completed") || json.spells(event, "interaction.complete") {
            let status = json.member("status", of: json.member("interaction", of: root))
            if !json.spells(status, "cancelled") { end = Self.mark(json, status) ?? json.repairedText(event) }
        }
    }

    /// What is written, and the words of what is spoken. `response.done` names its status; an answer that was cancelled has no end mark.
    private mutating func readRealtime(_ json: JSONText, _ root: JSONValue, _ type: JSONValue) {
        isKnown = true
        if json.spells(type, "response.done") {
            let status = json.member("status", of: json.member("response", of: root))
            if !json.spells(status, "cancelled") { end = Self.mark(json, status) ?? "response.done" }
        } else if json.spells(type, "session.output_transcript.delta") || Self.realtimeTypes.contains(where: { json.spells(type, $0) }) {
            text = json.repairedText(json.member("delta", of: root)) ?? ""
        }
    }

    /// The model's own words, written or spoken, not those of whom it listens to.
    private mutating func readGeminiLive(_ json: JSONText, _ root: JSONValue) {
        isKnown = true
        let content = json.member("serverContent", of: root)
        json.forEachElement(of: json.member("parts", of: json.member("modelTurn", of: content))) { part in
            guard json.member("thought", of: part).kind != .true else { return }
            text += json.repairedText(json.member("text", of: part)) ?? ""
        }
        text += json.repairedText(json.member("text", of: json.member("outputTranscription", of: content))) ?? ""
        if json.member("turnComplete", of: content).kind == .true { end = "turnComplete" }
    }
}
