/// Bugs that the simulator plants to see whether it would find them. No production code sets one.
package enum PlantedBug: String, CaseIterable, Sendable {
    /// The hub does not say that it has recorded an event.
    case dropAcknowledgement
    /// A clock in the future wins for ever.
    case compareWithoutClamp
    /// A replica takes a hub's word for what its events lead to.
    case skipHeadCheck
    /// What a lane has sent before is forgotten.
    case forgetLaneMark
    /// The hub says that a replica has everything before it has sent it.
    case advanceCursorEarly
    /// Everybody sees every conversation.
    case leakToStrangers
    /// What no hub has answered is gone with the process.
    case loseOutbox
    /// An append is acknowledged before it is synced.
    case answerBeforeSync
    /// A lane's events are sent in another order.
    case reorderLane
    /// Who left goes on seeing what is written.
    case ignoreLeave
    /// What rests on a refused event is decided by itself.
    case forgetBase
    /// What follows an event whose counter was another's is decided by itself.
    case forgetConflict
    /// What the hub refuses is forgotten.
    case dropRefused
    /// A hub believes every cursor.
    case believeCursors
    /// A hub takes every checkpoint that a device names for one of its own.
    case believeCheckpoints
    /// A device is sent what it did not ask for.
    case ignoreScope
    /// Who comes later is shown what was before, where that is not for them.
    case tellHistory
    /// What stands for an erased body is not its hash.
    case misHashErased
    /// Of what happened while a device was away, it is sent the newest conversation only.
    case forgetMissed
    /// A hub tells of a lot that it was sent before it was.
    case tellProgressEarly
    /// A replica takes what was told of a part for all.
    case takePartForAll
    /// Of what an earlier session has not begun to send, nothing is sent.
    case forgetUncovered
    /// What damage took of a replica's logs is not asked for.
    case forgetDamage
    /// A replica offers again what a hub that was set back, and then put forward again, has as it was first.
    case repeatOffers
    /// A hub does not look for what stands there under another origin.
    case forgetTwins
    /// Where the hub may have what a replica has not sent yet, as far as it knows, moves on with the replica's cursor.
    case passOutbox
    /// A hub answers what was asked behind a page before it sends that.
    case overtakePage
    /// A replica takes a hub's cursor for what the hub could not read, too.
    case forgetUnread
    /// A newest part that a hub shows anew takes the place of what was shown, wherever it begins.
    case forgetPart
    /// What was set aside and lies in a hole when all else was compared is not told.
    case leaveDoubt
    /// An own write is not made later than what is shown of a log that is not held.
    case forgetShown

    /// The one that is planted, within a simulation.
    @TaskLocal package static var current: PlantedBug?

    package var isPlanted: Bool { Self.current == self }
}
