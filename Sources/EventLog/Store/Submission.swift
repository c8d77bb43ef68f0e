/// An event on its way into a store.
public struct Submission: Sendable {
    public var event: Event
    /// Who made it (I3). `nil`: this store's own, with its next counter and its clock.
    public var origin: Origin?
    /// The hub's own tidying up: asks no participation of the author.
    package var isOwnHousekeeping = false
    /// The sender says that it never sent this origin before. If the origin's counter was handled all the same, for another event or for none that was
    /// recorded, the answer is `originConflict` and not what the older event got: a device that was restored from a backup uses counters again.
    package var isFirstSending = false
    /// Why it must not be recorded, as far as whoever submits it knows: the answer where the rules would accept it. What was recorded before is a repeat all
    /// the same.
    package var objection: Refusal?
    /// The counter, in the same lane, of an event that was sent before this one and on which it rests: 0, none. If that one was refused, what the rules would
    /// accept is refused too: it would speak of something else that has the same id.
    package var restsOn: UInt64 = 0
    /// What it rests on was refused, and the store has no mark of it.
    package var isBaseRefused = false
    /// The sender writes its lane anew from where a counter turned out to be another event's (`originConflict`): what follows that in the lane gets the same
    /// answer, or it would stand before it.
    package var followsConflicts = false
    /// An event before it in its lane was refused so, in another append.
    package var isBehindConflict = false
    /// The sender never gives an event another time: what is recorded under its origin and says the same, but was said at another time, is another event of a
    /// device that was restored from a backup.
    package var comparesTimes = false
    /// A chunk that is recorded with another text is no repeat of it: its author has another device that streams under the same id.
    package var comparesChunks = false
    /// Under which origin a hub recorded the event, which seemed to be lost since: where the log has it so, this is a repeat of it.
    package var former: FormerOrigin?
    /// Behind which position the same event may stand under any other origin: of the same author, content and HLC of the origin. Of use for what has no id by
    /// which a repeat is known, as an edit. `nil`: nowhere.
    package var mayStandBehind: Position?
    /// If bytes are damaged which have to be read for it, it stays undecided, and what follows of its log in the append: the rest is decided.
    package var leavesDamage = false
    /// What a newer version says of the event.
    package var newer: NewerFields?
    /// What is known of the origin already; `nil`: it was not looked for.
    var recall: Recall?
    /// The same of the former origin.
    var formerRecall: Recall?
    /// The same of the event under any other origin.
    var twin: Recall?

    /// Says that among a log's events up to a seq none is this, under whatever origin: then it is not looked for there.
    package mutating func isUnrecorded(through seq: Seq) {
        recall = Recall(through: seq, found: nil)
        (formerRecall, twin) = (recall, recall)
    }

    public init(_ event: Event, origin: Origin? = nil) {
        self.event = event
        self.origin = origin
    }
}

/// The id and the counter that an event had once.
package struct FormerOrigin: Hashable, Sendable {
    package var replica: ReplicaID
    package var counter: UInt64

    package init(replica: ReplicaID, counter: UInt64) { (self.replica, self.counter) = (replica, counter) }
}

/// How safe an acknowledged append is.
public enum Durability: Hashable, Sendable {
    /// Synced to the device before it is acknowledged (I1).
    case full
    /// Written at once and synced within the interval: a power failure can cost the last interval, never more, and never corrupts.
    case relaxed(interval: Duration)
}

/// Where an event was recorded.
public struct Receipt: Hashable, Sendable {
    public var seq: Seq
    public var position: Position
    public var hlc: HLC
    /// Whether it was synced when this answer was given; only a `.relaxed` store answers before.
    public var isDurable: Bool
}

/// A store's answer to one submission.
public enum AppendOutcome: Hashable, Sendable {
    case accepted(Receipt)
    /// It was recorded before; nothing was appended. The receipt tells where; of a chunk of a stream that was not alone in its log and lies long ago, where its
    /// message was sent.
    case duplicate(Receipt)
    case refused(Refusal)
    /// Nothing was decided, because another event of its atomic batch was refused.
    case withdrawn
    /// Nothing was decided, because bytes are damaged which have to be read for that, as the text says. Only of submissions that ask for it; of others their append fails.
    case undecided(String)
}
