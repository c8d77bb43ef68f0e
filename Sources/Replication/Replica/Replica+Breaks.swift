internal import ConversationStore
internal import EventLog

/// Lines that break.
extension Replica {
    /// Messages are asked to be so small where the line has cut so many sessions before anything came of them: each time the same message may have been on
    /// its way. One such session alone says little, as hubs stop, too. `nil`: they may be of any size.
    func messageBytes(behindBreaks breaks: Int) -> Int? {
        switch breaks {
        case ..<2: nil
        case ..<4: options.messageBytes.behindTwo
        default: options.messageBytes.behindFour
        }
    }

    private static let breaksMax = 4
    /// A session that brought less came to nothing: what is said live, or small, gets through any line. One that brought so much had one that holds.
    private static let fruitBytes = 64 << 10, soundBytes = 4 << 20

    /// What this session's HELLO said of the size of messages: what goes up is not larger either.
    var messageBytes: Int { state.withLock { $0.greeting.messageBytes } }

    /// The line broke before all had come, and gone.
    ///
    /// - Parameter bytes: of messages that brought something all the same.
    func noteBreak(after bytes: Int) throws {
        if bytes >= Self.soundBytes { return try forgetBreaks() }
        let breaks = state.withLock { $0.greeting.breaks }
        if bytes < Self.fruitBytes, breaks < Self.breaksMax {
            try side.write { try $0.put(SyncTables.state, ReplicaState.Key.breaks, [UInt8](repeating: 1, count: breaks + 1)) }
        }
    }

    /// All has come, and gone.
    func forgetBreaks() throws {
        let had = state.withLock { state in
            defer { state.greeting.breaks = 0 }
            return state.greeting.breaks > 0
        }
        if had { try side.write { try $0.delete(SyncTables.state, ReplicaState.Key.breaks) } }
    }
}
