package import EventLog

/// How far a session came that has not sent everything yet: a cursor with two ends, and what lies between them.
///
/// A first sync goes from the newest conversations to the oldest, some at a time, and in each lot from its oldest events to its newest. So there is no
/// position before its end up to which all was sent; but there is one for each log, which follows from where the log's last event lies.
package struct PartialCursor: Hashable, Sendable {
    /// Where the hub stood when it looked up what was to be sent.
    package var cursor: Cursor
    /// Of the logs whose last event up to the cursor lies here or behind, all up to the cursor was sent.
    package var wholeFrom: Position
    /// Of those whose last event lies here or behind, and before ``wholeFrom``, all up to ``partThrough`` was sent. Of others nothing is said.
    package var partFrom: Position
    package var partThrough: Position

    /// `nil`: no such progress can be.
    package init?(cursor: Cursor, wholeFrom: Position, partFrom: Position, partThrough: Position) {
        guard cursor.position <= WireLimits.seqMax, 1...cursor.position + 1 ~= wholeFrom, partFrom <= wholeFrom, partThrough <= cursor.position else {
            return nil
        }
        (self.cursor, self.wholeFrom, self.partFrom, self.partThrough) = (cursor, wholeFrom, partFrom, partThrough)
    }

    /// Up to which position all was sent of a log whose last event up to the cursor lies at `last`.
    func reach(_ last: Position) -> Position { last >= wholeFrom ? cursor.position : last >= partFrom ? partThrough : 0 }

    /// Whether it says of no log less than an older one of the same store did.
    func isAtLeast(_ old: PartialCursor?) -> Bool {
        guard let old else { return true }
        // What changed since then lies behind all that did not.
        let keepsWhole = wholeFrom <= old.wholeFrom || old.wholeFrom > old.cursor.position
        let keepsPart = wholeFrom <= old.partFrom || old.partFrom == old.wholeFrom || partFrom <= old.partFrom && partThrough >= old.partThrough
        return keepsWhole && keepsPart
    }
}

/// What a hub tells of a session that has not sent everything: how far it came, and what came beside that.
package struct Progress: Hashable, Sendable {
    package var part: PartialCursor
    /// Logs of which all was sent since the session began, though `part` does not say so: of a first screen, or live. Of each it is told when that is so; not again
    /// until more of the log was sent.
    package var whole: [LogID] = []

    package init(_ part: PartialCursor, whole: [LogID] = []) { (self.part, self.whole) = (part, whole) }
}
