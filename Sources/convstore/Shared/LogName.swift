import ConversationStore

/// What was typed for a conversation: an id, the beginning of one, or `user:NAME` for a user's own log.
struct LogName {
    private static let candidatesMax = 10
    let text: String

    /// The one log that is meant. Throws 66 if there is none, and 64, naming the candidates, if there are several.
    ///
    /// - Parameter others: conversations that are meant too, though the log holds nothing of them.
    func resolve(in store: EventStore, or others: [ConversationID] = []) throws -> LogID {
        if text.hasPrefix("user:"), let user = UserID(String(text.dropFirst(5))) {
            guard try store.event(in: .user(user), at: 1) != nil else { throw absent(store) }
            return .user(user)
        }
        if let id = ConversationID(text) {
            guard try others.contains(id) || store.event(in: .conversation(id), at: 1) != nil else { throw absent(store) }
            return .conversation(id)
        }
        guard !text.isEmpty, text.utf8.allSatisfy({ Self.isPart($0) }) else {
            throw Failure(.usage, "\"\(text)\" is no conversation's id: an id is a UUID, and its beginning will do")
        }
        var found = try store.conversations(withPrefix: text, limit: Self.candidatesMax + 1)
        found += others.filter { $0.description.hasPrefix(text.lowercased()) && !found.contains($0) }
        guard let first = found.first else { throw absent(store) }
        guard found.count == 1 else {
            let rest = found.count > Self.candidatesMax ? "\n  and more" : ""
            let list = found.prefix(Self.candidatesMax).map { "\n  " + $0.description }.joined()
            throw Failure(.usage, "\"\(text)\" begins several conversations' ids; type more of the one you mean:\(list)\(rest)")
        }
        return .conversation(first)
    }

    private func absent(_ store: EventStore) -> Failure { Self.absent(text, store) }

    /// For a conversation that was resolved, and of which there is nothing to show.
    static func notShown(_ text: String, _ id: ConversationID, _ store: EventStore) throws -> Failure {
        guard try store.lastSeq(of: .conversation(id)) > 0 else { return absent(text, store) }
        return Failure(.data, "\(store.path): the log holds the conversation \(text), what screens show does not; run `convstore rebuild`")
    }

    private static func absent(_ text: String, _ store: EventStore) -> Failure {
        Failure(.noInput, "\(store.path): no conversation \"\(text)\"; `convstore conversations` lists all")
    }

    /// The conversation that is meant; a user's own log is none. On a replica it may be one that was made there and is not synced, or came only in part.
    func conversation(in store: ConversationStore) throws -> ConversationID {
        guard case .conversation(let id) = try resolve(in: store.log, or: store.overlaidConversations) else {
            throw Failure(.usage, "\(text) is a user's own log, not a conversation")
        }
        return id
    }

    private static func isPart(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"), UInt8(ascii: "A")...UInt8(ascii: "F"),
            UInt8(ascii: "-"):
            true
        default: false
        }
    }
}
