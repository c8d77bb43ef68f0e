import ConversationStore

/// What was typed for a message: an id, the beginning of one, or `@SEQ`, as `timeline` shows it.
struct MessageName {
    private static let candidatesMax = 10
    private static let pageMessages = 500
    let text: String

    /// The one message that is meant. A whole id is taken as it is: the store decides. Throws `unknown_message` (65) if there is none, and 64,
    /// naming the candidates, if there are several.
    func resolve(in conversation: ConversationID, _ store: ConversationStore) throws -> MessageID {
        if let id = MessageID(text) { return id }
        if text.hasPrefix("@") {
            guard let seq = Seq(text.dropFirst()) else { throw Failure(.usage, "\(text): behind @ stands a message's seq") }
            // What is pending has no seq yet, and is shown without one.
            guard let message = try store.message(in: conversation, at: seq), message.details?.unconfirmed == nil else { throw Refusal(.unknownMessage, text) }
            return message.id
        }
        guard !text.isEmpty, text.utf8.allSatisfy({ $0 == UInt8(ascii: "-") || Character(Unicode.Scalar($0)).isHexDigit }) else {
            throw Failure(.usage, "\"\(text)\" is no message's id: an id is a UUID, its beginning will do, and so will @SEQ")
        }
        let found = try candidates(in: conversation, store)
        guard let first = found.first else { throw Refusal(.unknownMessage, text) }
        guard found.count == 1 else {
            let rest = found.count > Self.candidatesMax ? "\n  and more" : ""
            let list = found.prefix(Self.candidatesMax).map { "\n  " + $0.description }.joined()
            throw Failure(.usage, "\"\(text)\" begins several messages' ids; type more of the one you mean:\(list)\(rest)")
        }
        return first
    }

    /// From the newest on.
    private func candidates(in conversation: ConversationID, _ store: ConversationStore) throws -> [MessageID] {
        let prefix = text.lowercased()
        var result: [MessageID] = []
        var range = TimelineRange.newest
        while let page = try store.timeline(of: conversation, range, limit: Self.pageMessages) {
            for message in page.messages.reversed() where message.id.description.hasPrefix(prefix) { result.append(message.id) }
            guard let first = page.messages.first, page.hasBefore, result.count <= Self.candidatesMax else { break }
            range = .before(first.seq)
        }
        return result
    }
}
