import ConversationStore

extension Failure {
    /// A refusal of the store: its code, and what that means.
    init(_ refusal: Refusal) {
        let detail = refusal.detail.isEmpty ? "" : " (\(refusal.detail))"
        self.init(.data, "refused: \(refusal.code.rawValue)\(detail): \(refusal.meaning)")
    }
}

extension Refusal {
    /// For people.
    var meaning: String {
        switch code {
        case .malformed: "an event must not have that there (docs/EVENTS.md names what each takes)"
        case .tooLarge: "that is more than an event may hold"
        case .unknownConversation: "there is no such conversation"
        case .conversationConflict: "a conversation of this id exists, and it is another one"
        case .notParticipant where detail == "user": "who is to leave takes no part in this conversation"
        case .notParticipant: "the author takes no part in this conversation"
        case .unknownMessage: "there is no such message in this conversation"
        case .messageConflict: "a message of this id exists, and it is another one"
        case .chunkGap: "a chunk is missing before this one"
        case .messageClosed: "the message has ended"
        case .messageStreaming: "the message is still being streamed; interrupt it first"
        case .messageDeleted: "the message was deleted"
        case .notAuthor: "only its author may do that"
        case .originConflict: "its origin made another event before"
        case .forbidden where detail == "history": "who does not see what was said before the joining may not change who does"
        case .forbidden: "nobody else may write for its author"
        case .unknownKind: "the hub does not know this kind of event yet"
        }
    }
}
