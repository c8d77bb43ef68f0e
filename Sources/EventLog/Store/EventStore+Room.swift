/// Whether what is appended now would be kept: for those who run a store and must know before its writers complain.
extension EventStore {
    /// Why the last write failed, of an append or of the archive, for lack of room or as the system refused it; `nil` again when one has succeeded.
    ///
    /// After `unknownOutcome` it stays: the store takes nothing before it is opened anew.
    public var writeFailure: EventLogError? { writing.withLock { $0.failure } ?? flushing.withLock { $0.failure } }

    /// Commits that failed since the store was opened.
    public var writeFailures: UInt64 { writing.withLock { $0.failures } }

    /// Looks whether there is room again for what the last append found none for. Else who lets nobody write because of ``writeFailure`` would wait for ever.
    package func lookForRoom() {
        guard let journal, let wanted = writing.withLock({ $0.failure?.code == .diskFull ? $0.wanted : nil }) else { return }
        lead { _ in
            guard case .ready? = try? journal.reserve(wanted) else { return }
            writing.withLock { $0.failure = nil }
        }
    }

    /// Whether there would be room for what takes so many bytes of the journal.
    package func hasRoom(for bytes: Int) -> Bool {
        guard let journal else { return false }
        return lead { _ in if case .ready? = try? journal.reserve(bytes) { true } else { false } }
    }

    /// A commit failed, which wanted so many bytes of the journal.
    func note(_ error: any Error, _ wanted: Int = 0) {
        guard let error = error as? EventLogError, [.diskFull, .inputOutput, .unknownOutcome].contains(error.code) else { return }
        writing.withLock { state in
            // What comes behind a failed sync fails as it did.
            state.failures += 1
            state.failure = error
            state.wanted = wanted
        }
    }
}
