internal import ConversationStore

/// An event that a replica took from its application: it must end in the hub's log, or visibly failed.
struct Promise {
    var event: Event
    /// Why nothing is owed any more: it was withdrawn, or the device that held it alone was set back to before.
    var isReleased = false
    /// It failed once, and was sent again later than what was made after it.
    var wasRetried = false
    /// It was made in one breath with this, which the hub must refuse, and rests on it.
    var refusedBase: Event?
    /// Its place among what its device wrote, if that is not where it stands: it was written before, and its text changed since.
    var place: Int?
    /// The hub had it, and then bytes of the device's copy decayed.
    var mayBeSpoiled = false
}

/// What the hub said of an event in an ACCEPTED.
struct Answer {
    var log: LogID
    var replica: ReplicaID
    var counter: UInt64
    var seq: Seq
    var isDuplicate: Bool
    /// When it was said, in the world's time.
    var time: UInt64
}
