package import ConversationStore

extension Replica {
    /// The newest part of a conversation's log that is held beside the logs: what a simulation looks at.
    package struct Part: Sendable {
        package var log: LogID
        /// It begins behind this seq.
        package var baseSeq: Seq
        /// What is before it is not for this user.
        package var isFirst: Bool
        package var base: [UInt8]
        package var events: [RecordedEvent]

        package var lastSeq: Seq { baseSeq + Seq(events.count) }
    }

    /// Events of which it cannot be told yet whether the hub has them.
    package func suspectEvents() throws -> [RecordedEvent] { try Lost.read(side, in: SyncTables.suspects) }

    /// Ascending by log.
    package var parts: [Part] { state.withLock { $0.previews.all }.sorted { $0.log < $1.log } }
}
