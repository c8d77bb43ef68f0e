internal import ConversationStore

/// The times of a replica's own events, by which last-write-wins tells which was written last (DESIGN.md, section 8).
extension Replica {
    /// Behind which time the first own event of this opening is made, so that none has a time that one had before, however far the wall clock is behind: by that a
    /// repeat is told from another event that says the same.
    ///
    /// - Parameter given: the last time that was given, as far as is known. One far in the future was a wrong clock's: only what waits with such a time, and is
    ///   shown, is written over by what is made later; the hub lets neither be later than its answer.
    func beginClock(behind given: HLC, _ state: borrowing State) -> HLC {
        let clock = shownClock(state)
        let now = max(clock.milliseconds, options.execution.now().wallMilliseconds)
        let last = state.outbox.table.lastTimes
        let behind = max([given, last.of].reduce(clock) { $1.milliseconds > now + Self.clockLeadMax ? $0 : max($0, $1) }, last.ofAwaited)
        // A copy of this replica does not know what was given since it was made.
        return behind.rawValue < .max >> 1 ? HLC(rawValue: behind.rawValue + options.execution.random() & 0x7FFF) : behind
    }

    /// Milliseconds.
    private static let clockLeadMax: UInt64 = 3_600_000

    /// Who writes with a clock that is behind means what was written to come after all that was there to be seen.
    func shownClock(_ state: borrowing State) -> HLC { max(store.log.clock, state.previews.clock) }

    func nextHLC(after last: HLC, _ state: borrowing State) -> HLC {
        max(last, shownClock(state)).next(wallMilliseconds: options.execution.now().wallMilliseconds)
    }
}
