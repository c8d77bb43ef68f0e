internal import ConversationStore

/// The times of a replica's own events, by which last-write-wins tells which was written last (DESIGN.md, section 8).
struct OwnClock {
    /// The last that was given.
    var last = HLC(rawValue: 0)
    /// The greatest that any own event has, or had as far as is known. It is past `last` where a clock was ahead.
    var ahead = HLC(rawValue: 0)
}

extension Replica {
    /// Behind which times own events of this opening are made, so that none has a time that one had before, however far the wall clock is behind: by that a
    /// repeat is told from another event that says the same.
    ///
    /// - Parameter given: the last time that was given, but for those of writes that had to go past others; 0: it is not known. One far in the future was a wrong
    ///   clock's.
    func beginClock(behind given: HLC, _ state: borrowing State) -> OwnClock {
        let clock = shownClock(state), waiting = state.outbox.table.lastTime, last = given.rawValue > 0 ? given : waiting
        let behind = isAhead(last, of: clock) ? clock : max(clock, last), greatest = max(clock, last, waiting)
        let first = apart(behind)
        return OwnClock(last: first, ahead: greatest > behind ? max(apart(greatest), first) : first)
    }

    /// A copy of this replica does not know what was given since it was made.
    private func apart(_ time: HLC) -> HLC { time.rawValue < .max >> 1 ? HLC(rawValue: time.rawValue + options.execution.random() & 0x7FFF) : time }

    /// Whether a wrong clock has given that, as a look at the wall and at what the hub has says: it is more than an hour past both.
    private func isAhead(_ time: HLC, of shown: HLC) -> Bool {
        time.milliseconds > max(shown.milliseconds, options.execution.now().wallMilliseconds) + Self.clockLeadMax
    }

    /// Milliseconds.
    private static let clockLeadMax: UInt64 = 3_600_000

    /// Who writes with a clock that is behind means what was written to come after all that was there to be seen.
    private func shownClock(_ state: borrowing State) -> HLC { max(store.log.clock, state.previews.clock) }

    /// The time of an own event that is made now.
    ///
    /// What is shown as pending may have a time that is far ahead, and counts with that until the hub has it, which makes it no later than its answer. What is
    /// to take its place is made later still; all else keeps the true time, which its readers are shown.
    ///
    /// - Parameters:
    ///   - made: what is made with it, and not in the outbox yet.
    ///   - replaced: the time that it had before.
    func time(of event: Event, beside made: [(event: Event, hlc: HLC)] = [], replaced: HLC? = nil, _ state: inout State) -> HLC {
        let confirmed = shownClock(state)
        // The wall clock was set right meanwhile, or back.
        if isAhead(state.clock.last, of: confirmed) {
            state.clock = OwnClock(last: apart(confirmed), ahead: max(state.clock.ahead, state.clock.last))
        }
        var next = max(state.clock.last, confirmed).next(wallMilliseconds: options.execution.now().wallMilliseconds)
        // What was given before that may have been given at this very tick. What follows the last is apart as that is.
        if next <= state.clock.ahead, next != state.clock.last.next(wallMilliseconds: 0) { next = apart(next) }
        if next == replaced { next = next.next(wallMilliseconds: 0) }
        if event.content.isRegisterWrite, let shown = shownTime(in: event.conversation, made, next, state), shown >= next {
            // What is past all that was given here may have been given in a life that was lost.
            state.clock.ahead = (shown > state.clock.ahead ? apart(shown) : state.clock.ahead).next(wallMilliseconds: 0)
            return state.clock.ahead
        }
        state.clock.last = next
        return next
    }

    /// The greatest time of what is shown of own events in a conversation, as far as it may be past `next`.
    private func shownTime(in conversation: ConversationID, _ made: [(event: Event, hlc: HLC)], _ next: HLC, _ state: borrowing State) -> HLC? {
        var times = state.suspects.times(in: conversation)
        if state.clock.ahead >= next {
            // What failed may be tried again, with the time that it has.
            times += state.outbox.table[conversation].filter(\.event.content.writesRegister).map(\.origin.hlc)
            times += made.filter { $0.event.conversation == conversation && $0.event.content.writesRegister }.map(\.hlc)
        }
        return times.max()
    }
}

extension Event.Content {
    /// Whether last-write-wins decides about what it says.
    package var isRegisterWrite: Bool {
        switch self {
        case .conversationUpdated, .messageEdited, .reactionSet, .preferenceSet: true
        default: false
        }
    }

    /// Whether something that it says stands against such a write: a creation has a title.
    package var writesRegister: Bool { if case .conversationCreated = self { true } else { isRegisterWrite } }
}
