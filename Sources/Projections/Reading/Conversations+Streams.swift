package import EventLog

/// A message that is being streamed.
package struct OpenStream: Sendable {
    package var conversation: ConversationID
    package var seq: Seq
    package var message: MessageID
    package var author: UserID
    /// Who began it.
    package var replica: ReplicaID
    /// When the hub last accepted something of it; who asks the log fills it in.
    package var last = HLC(rawValue: 0)
}

extension Conversations {
    package func openStreams() throws -> [OpenStream] {
        var result: [OpenStream] = []
        try streams.forEach { key, row in
            result.append(
                OpenStream(
                    conversation: key.conversation, seq: key.number, message: row.message, author: row.author, replica: row.replica))
            return true
        }
        return result
    }

    package func participants(of id: ConversationID) throws -> [UserID] { try rows.read(id) { $0.participants } ?? [] }
}
