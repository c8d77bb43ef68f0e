public import EventLog

/// Writes recorded events as lines of the JSONL contract (docs/EVENTS.md), into a buffer that its caller reuses.
public struct EventLineEncoder: Sendable {
    /// Whether lines hold what a true copy needs: `export --exact`.
    public let isExact: Bool
    /// Whether events of kinds unknown here become lines too. `import` reads them in a true copy only, so a plain export leaves them out.
    public let writesUnknown: Bool

    public init(isExact: Bool = false, writesUnknown: Bool = false) {
        self.isExact = isExact
        self.writesUnknown = isExact || writesUnknown
    }

    /// Appends one line and its LF.
    ///
    /// `secret` is written only by an exact encoder. Answers `false`, and appends nothing, for an event of a kind unknown here
    /// unless those are written.
    @discardableResult
    public func append(_ record: RecordedEvent, secret: [UInt8]? = nil, to output: inout [UInt8]) -> Bool {
        guard appendHead(record.event, at: record.origin.hlc, to: &output) else { return false }
        if isExact, record.event.content.kind == nil, case .user = record.log { output.append(",\"log\":\"user\"") }
        if record.isErased { output.append(",\"erased\":true") }
        if isExact, let commitment = record.commitment { output.appendMember(",\"commitment\":", base64: commitment.bytes) }
        appendPlace(record, to: &output)
        if isExact {
            if let target = record.targetSeq {
                output.append(",\"target_seq\":")
                output.appendNumber(target)
            }
            if let secret { output.appendMember(",\"secret\":", base64: secret) }
            // What a newer version says beside the members above stands in its bytes alone.
            if record.newer != nil {
                let (envelope, body) = EventCodec.encode(record)
                output.appendMember(",\"envelope\":", base64: envelope)
                if !record.isErased { output.appendMember(",\"body\":", base64: body) }
            }
        }
        output.append("}\n")
        return true
    }

    /// The same of an event that no hub has accepted: it has no place in a log yet.
    @discardableResult
    public func appendPending(_ event: Event, made time: HLC, to output: inout [UInt8]) -> Bool {
        guard appendHead(event, at: time, to: &output) else { return false }
        output.append(",\"pending\":true}\n")
        return true
    }

    private func appendHead(_ event: Event, at time: HLC, to output: inout [UInt8]) -> Bool {
        if let kind = event.content.kind {
            output.append("{\"type\":\"")
            output.append(kind.name)
            output.append("\"")
        } else {
            guard writesUnknown else { return false }
            output.append("{\"type\":\"unknown\"")
        }
        output.appendMember(",\"conversation_id\":", event.conversation)
        output.appendMember(",\"author\":", event.author.string)
        output.append(",\"at\":\"")
        Timestamp.append(time.milliseconds, to: &output)
        output.append("\"")
        appendContent(event.content, to: &output)
        return true
    }

    private func appendPlace(_ record: RecordedEvent, to output: inout [UInt8]) {
        output.append(",\"seq\":")
        output.appendNumber(record.seq)
        // What was kept aside has none.
        if record.position > 0 {
            output.append(",\"position\":")
            output.appendNumber(record.position)
        }
        output.appendMember(",\"hlc\":", record.hlc)
        output.appendMember(",\"origin\":{\"replica\":", record.origin.replica)
        output.append(",\"counter\":")
        output.appendNumber(record.origin.counter)
        output.appendMember(",\"hlc\":", record.origin.hlc)
        output.append("}")
    }

    private func appendContent(_ content: Event.Content, to output: inout [UInt8]) {
        switch content {
        case .conversationCreated(let kind, let title, let participants):
            output.append(kind.jsonMember)
            if let title { output.appendMember(",\"title\":", title) }
            output.append(",\"participants\":[")
            for (index, user) in participants.enumerated() { output.appendMember(index == 0 ? "" : ",", user.string) }
            output.append("]")
        case .conversationUpdated(let title, let attributes):
            if let title { output.appendMember(",\"title\":", title) }
            guard !attributes.isEmpty else { return }
            for (index, attribute) in attributes.enumerated() {
                output.appendMember(index == 0 ? ",\"attributes\":{" : ",", attribute.name)
                output.append(":")
                output.appendValue(attribute.value)
            }
            output.append("}")
        case .participantJoined(let user), .participantLeft(let user): output.appendMember(",\"user\":", user.string)
        case .messageSent(let message): appendMessage(message, to: &output)
        case .chunkAppended(let message, let index, let text):
            output.appendMember(",\"message_id\":", message)
            output.append(",\"index\":")
            output.appendNumber(UInt64(index))
            output.appendMember(",\"text\":", text)
        case .messageCompleted(let message, let finishReason, let usage):
            output.appendMember(",\"message_id\":", message)
            if let finishReason { output.appendMember(",\"finish_reason\":", finishReason) }
            guard let usage else { return }
            output.append(",\"usage\":{\"input_tokens\":")
            output.appendNumber(usage.inputTokens)
            output.append(",\"output_tokens\":")
            output.appendNumber(usage.outputTokens)
            output.append("}")
        case .messageInterrupted(let message, let reason):
            output.appendMember(",\"message_id\":", message)
            output.appendMember(",\"reason\":", reason)
        case .messageEdited(let message, let text):
            output.appendMember(",\"message_id\":", message)
            output.appendMember(",\"text\":", text)
        case .messageDeleted(let message): output.appendMember(",\"message_id\":", message)
        case .reactionSet(let message, let emoji, let isOn):
            output.appendMember(",\"message_id\":", message)
            output.appendMember(",\"emoji\":", emoji)
            output.append(isOn ? ",\"on\":true" : ",\"on\":false")
        case .receiptDelivered(let upTo), .receiptRead(let upTo): output.appendMember(",\"up_to\":", upTo)
        case .preferenceSet(let key, let value):
            output.appendMember(",\"key\":", key)
            output.append(",\"value\":")
            output.appendValue(value)
        case .custom(let name, let payload):
            output.appendMember(",\"name\":", name)
            output.appendMember(",\"payload\":", base64: payload)
        case .unknown(let kind, let body):
            output.append(",\"kind\":")
            output.appendNumber(UInt64(kind))
            output.appendMember(",\"bytes\":", base64: body)
        }
    }

    private func appendMessage(_ message: Event.Message, to output: inout [UInt8]) {
        output.appendMember(",\"message_id\":", message.id)
        output.append(message.role.jsonMember)
        output.appendMember(",\"text\":", message.text)
        if let parts = message.parts {
            output.append(",\"parts\":")
            // What is not the canonical form must neither break the line nor change: only a true copy reads it back, out of a string.
            if CanonicalJSON.array(parts).map({ $0.utf8.elementsEqual(parts.utf8) }) == true {
                output.append(contentsOf: parts.utf8)
            } else {
                output.appendValue(parts)
            }
        }
        if let replyTo = message.replyTo { output.appendMember(",\"reply_to\":", replyTo) }
        if message.isStreaming { output.append(",\"streaming\":true") }
        if let requestID = message.requestID { output.appendMember(",\"request_id\":", requestID) }
    }
}

extension Event.ConversationKind {
    fileprivate var jsonMember: StaticString {
        switch self {
        case .direct: ",\"kind\":\"direct\""
        case .group: ",\"kind\":\"group\""
        case .assistant: ",\"kind\":\"assistant\""
        }
    }
}

extension Event.Role {
    fileprivate var jsonMember: StaticString {
        switch self {
        case .user: ",\"role\":\"user\""
        case .assistant: ",\"role\":\"assistant\""
        case .system: ",\"role\":\"system\""
        case .tool: ",\"role\":\"tool\""
        }
    }
}
