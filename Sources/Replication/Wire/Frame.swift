public import EventLog

/// One message between a replica and a hub (docs/PROTOCOL.md, "Frames").
package enum Frame: Hashable, Sendable {
    case hello(Hello)
    case welcome(Welcome)
    case push([PushedEvent])
    case accepted([Accepted])
    case refused([Refused])
    case segment(SegmentFrame)
    case events(EventsFrame)
    case fetch([Fetch], damaged: [DamagedRun] = [])
    case caughtUp(CaughtUp)
    case credit(UInt64)
    case typing(Typing)
    case ping(UInt64)
    case pong(UInt64)
    case bye(Bye)
    case token(String)
    case heads(HeadsFrame)
    case base(BaseFrame)
    case repair(RepairFrame)
    case progress(Progress)
    case unreadable(Unreadable)
}

/// Where a replica stands in a hub's order of commits: it has seen all that concerns its user up to `position`.
public struct Cursor: Hashable, Sendable {
    public var store: StoreID
    /// The hub's opening in which the position was given: a hub that was restored has another.
    public var incarnation: UInt64
    public var position: Position

    public init(store: StoreID, incarnation: UInt64, position: Position) {
        self.store = store
        self.incarnation = incarnation
        self.position = position
    }
}

/// What a replica wants of a hub.
public enum Scope: Hashable, Sendable {
    /// All conversations of the user, and the user's own log.
    case mine
    case conversations([ConversationID])
    /// The so many conversations with the newest messages, with their last so many messages each.
    case newest(conversations: UInt64, messages: UInt64)
    /// Everything that the hub has; service accounts only.
    case everything
}

extension Scope {
    /// Whether it asks for newest parts, and not for logs.
    package var isOfParts: Bool { if case .newest = self { true } else { false } }

    /// The conversations that it names; `nil`: it leaves none out.
    var names: Set<ConversationID>? {
        if case .conversations(let ids) = self { Set(ids) } else { nil }
    }

    /// Whether a scope that names these has a log.
    static func covers(_ log: LogID, _ names: Set<ConversationID>?) -> Bool {
        guard let names, case .conversation(let id) = log else { return true }
        return names.contains(id)
    }
}

package struct Hello: Hashable, Sendable {
    package var versions: ClosedRange<UInt32>
    package var replica: ReplicaID
    /// What `replica` was made of, with the user's name: nobody else can write in this replica's lanes.
    package var nonce: [UInt8]
    package var user: UserID
    package var token: String
    package var cursor: Cursor?
    package var scope: Scope
    /// Bytes of SEGMENT, EVENTS and BASE that the hub may send before it is given more.
    package var credit: UInt64
    package var pushed: [PushedEvent]
    /// The size of the heads log that the last checkpoint signed which this replica has seen; 0: none.
    package var checkpointSize: UInt64
    /// The root that it signed. A hub whose log of heads has another one at that size was set back since, and does not know the cursor.
    package var checkpointRoot: Hash256? = nil
    /// Asks for the lobby and the newest pages before anything else.
    package var wantsFirstScreen: Bool
    /// The newest event by the hub's clock that is held; `nil`: none came behind the cursor, and which was before is not known.
    package var newest: HeldEvent? = nil
    /// If the cursor is gone, ``pushed`` comes again once the histories are compared: the hub leaves it undecided.
    package var sendsAgain = false
    /// Wants to be told of sessions that have not sent everything how far they came.
    package var takesProgress = false
    /// What the last such session has told, in the place of ``cursor``, which then cannot hold: a hub that is older than this compares all.
    package var progress: PartialCursor? = nil
    /// No message with events is to be larger than about this; 0: whatever the protocol allows. A line that breaks before a message is through brings nothing.
    package var messageBytes: UInt64 = 0
    /// Wants to be told of what the hub cannot read, and to have all else.
    package var takesUnreadable = false
    /// Need not be sent again the checkpoint that it names.
    package var takesCheckpointKept = false
}

/// An event that a replica has from its hub, as far as it takes to tell whether the hub has it too.
package struct HeldEvent: Hashable, Sendable {
    package var log: LogID
    package var seq: Seq
    package var hlc: HLC
    /// Who made it: a hub that was set back and whose wall clock stands still may give another event the same time.
    package var replica: ReplicaID
    package var counter: UInt64

    package init(log: LogID, seq: Seq, hlc: HLC, replica: ReplicaID, counter: UInt64) {
        self.log = log
        self.seq = seq
        self.hlc = hlc
        self.replica = replica
        self.counter = counter
    }

    package init(_ event: RecordedEvent) {
        self.init(log: event.log, seq: event.seq, hlc: event.hlc, replica: event.origin.replica, counter: event.origin.counter)
    }

    package init(_ stamp: EventStamp, log: LogID, seq: Seq) {
        self.init(log: log, seq: seq, hlc: stamp.hlc, replica: stamp.replica, counter: stamp.counter)
    }
}

package struct Welcome: Hashable, Sendable {
    package var version: UInt32
    package var connection: UInt64
    package var store: StoreID
    package var incarnation: UInt64
    /// Milliseconds since 1970.
    package var time: UInt64
    /// Bytes of PUSH that the replica may send before it is given more.
    package var credit: UInt64
    /// The hub does not know the replica's cursor: the replica sends its heads.
    package var isGone: Bool
    /// The hub's newest signed checkpoint, as a C2SP signed note; empty: it has made none.
    package var checkpoint: String
    /// That the heads log only grew since the replica's checkpoint (RFC 9162, 2.1.4).
    package var consistency: [Hash256]
    /// The key that signed it, as C2SP writes it; a replica keeps the first.
    package var checkpointKey = ""
    /// In its place: it is the one that HELLO named.
    package var isCheckpointKept = false
}

/// An event on its way to the hub, without what the hub decides.
package struct PushedEvent: Hashable, Sendable {
    package var envelope: [UInt8]
    package var body: [UInt8]
    /// It was never sent before: a counter that the hub knows is then another event's.
    package var isFirstSending: Bool
    /// The nonce of its replica, where that is not the session's.
    package var nonce: [UInt8] = []
    /// The counter of the event of the same lane on which it rests; 0: of none.
    package var restsOn: UInt64 = 0
    /// Under which it was recorded by a hub that has lost it, as it seems.
    package var former: FormerOrigin?
    /// The first of the hub's positions at which it may have the event under another origin; 0: nowhere.
    package var mayStandFrom: Position = 0
}

package struct Accepted: Hashable, Sendable {
    package var log: LogID
    package var replica: ReplicaID
    package var counter: UInt64
    package var seq: Seq
    package var hlc: HLC
    package var isDuplicate: Bool
}

package struct Refused: Hashable, Sendable {
    package var log: LogID
    package var replica: ReplicaID
    package var counter: UInt64
    package var code: String
    package var detail: String
}

/// What is said of a log beside its events.
package struct LogNote: Hashable, Sendable {
    package var log: LogID
    /// The log's seeds, where its first event is sent; else empty.
    package var secret: [UInt8] = []
    /// The head behind the last event of this frame, where the hub has it at hand.
    package var head: LogHead?

    var isEmpty: Bool { secret.isEmpty && head == nil }
}

package struct LogHead: Hashable, Sendable {
    package var size: UInt64
    package var root: Hash256
}

/// Events as a run (docs/FORMAT.md): as the archive holds it, or encoded for this peer.
package struct SegmentFrame: Hashable, Sendable {
    package var run: [UInt8]
    package var logs: [LogNote]
}

/// A few events as they are.
package struct EventsFrame: Hashable, Sendable {
    package struct Item: Hashable, Sendable {
        package var envelope: [UInt8]
        package var body: [UInt8]
        /// In the place of a body that was erased.
        package var commitment: Hash256?
    }
    package var items: [Item]
    package var logs: [LogNote]
}

/// A wish for a log's events from a seq on.
package struct Fetch: Hashable, Sendable {
    package var log: LogID
    package var from: Seq
    /// 0: to the end.
    package var through: Seq
}

package struct CaughtUp: Hashable, Sendable {
    package var cursor: Cursor
}

/// What a hub cannot read of its store.
package struct Unreadable: Hashable, Sendable {
    /// Logs of which nothing more is sent in this session.
    package var logs: [LogID] = []
    /// Logs of which nothing more that is pushed is decided in this session.
    package var undecided: [LogID] = []

    package init(_ logs: [LogID] = [], undecided: [LogID] = []) { (self.logs, self.undecided) = (logs, undecided) }
}

public struct Typing: Hashable, Sendable {
    public var conversation: ConversationID
    public var user: UserID
    public var isTyping: Bool

    public init(conversation: ConversationID, user: UserID, isTyping: Bool) {
        self.conversation = conversation
        self.user = user
        self.isTyping = isTyping
    }
}

/// Heads of logs: a replica's, when its cursor is gone; or a hub's, of logs that the replica should compare.
package struct HeadsFrame: Hashable, Sendable {
    package struct Item: Hashable, Sendable {
        package var log: LogID
        package var head: LogHead
    }
    package var heads: [Item]
    /// Only to compare: asks for the other's head at that size, or answers it.
    package var isProbe: Bool
    /// The replica has named all logs that it holds.
    package var isLast = false
}

/// Where the newest part of a log begins that is not sent whole yet: the reducers' state and the tree before it. Its events follow as SEGMENT or EVENTS.
package struct BaseFrame: Hashable, Sendable {
    package var log: LogID
    /// The reducers' state at `seq` (docs/FORMAT.md).
    package var base: [UInt8]
    package var seq: Seq
    /// The compact range over the events up to `seq`.
    package var range: [UInt8]
    /// Of the log's salts; from the event behind `seq` on, if `isFirst`.
    package var secret: [UInt8]
    /// Whether the events up to `seq` are not for this peer, now or later.
    package var isFirst = false
}

/// The blocks of a damaged run that a replica named, as they should be.
package struct RepairFrame: Hashable, Sendable {
    /// Of the run, in the replica's store.
    package var position: Position
    package var blocks: [RunBlock]
}

/// The end of a session: why, and when to come again.
public struct Bye: Hashable, Sendable {
    public enum Code: UInt32, Sendable, CaseIterable {
        case normal = 1
        case goingAway = 2
        case protocolError = 3
        case unsupportedVersion = 4
        case unauthenticated = 5
        case tokenExpired = 6
        case forbidden = 7
        case overloaded = 8
        case timeout = 9
        case internalError = 10
        /// The peer's history contradicts what was proven before.
        case forked = 11
        case storeFull = 12
    }
    public var code: Code
    public var reason: String
    public var retryAfterMilliseconds: UInt64

    public init(_ code: Code, _ reason: String = "", retryAfterMilliseconds: UInt64 = 0) {
        self.code = code
        self.reason = reason
        self.retryAfterMilliseconds = retryAfterMilliseconds
    }
}

/// The protocol's numbers.
public enum WireLimits {
    public static let versions: ClosedRange<UInt32> = 1...1
    public static let subprotocol = "convstore.sync.v1"
    /// Bytes of one message: the largest event, and some.
    public static let messageBytesMax = 8 << 20
    /// Of the state in BASE, as `ConversationBase` takes it: a hub sends no larger one.
    package static let baseBytesMax = 4 << 20
    /// So many logs are named in one message, with or without their heads, where messages are to have so many bytes.
    package static func logs(inMessagesOf bytes: Int) -> Int { max(16, min(headsMax, bytes / 64)) }
    /// Bytes of events that a HELLO may carry.
    package static let helloPushBytesMax = 256 << 10
    /// The least credit that a peer may give: one largest event must fit. The most, at once: what counts it must not overflow.
    package static let creditMin: UInt64 = 5 << 20
    package static let creditMax: UInt64 = 1 << 40
    package static let tokenBytesMax = 16 << 10
    /// Events of one PUSH.
    package static let pushEventsMax = 4096
    /// PUSHes that may be unanswered: small ones are remembered at more than their bytes.
    package static let pushesMax = 1024
    /// Logs of one FETCH, and of one HEADS that a hub takes: each costs it a look-up.
    package static let fetchesMax = 4096
    package static let headsMax = 1024
    /// Conversations of one FETCH whose newest part is asked for: a hub has them in memory at once.
    package static let basesMax = 16
    /// Damaged runs of one FETCH, and the bytes of the blocks that one of them may lack: it is asked for by its events else.
    package static let damagedMax = 16
    package static let repairBytesMax = 64 << 10
    /// Logs that a hub may say in one session that it cannot read.
    package static let unreadableMax = 1 << 17
    /// Spans by which a damaged run tells what it holds: 64 KiB or so.
    package static let spansMax = 2048
    /// What a log may grow to. A peer that says more wants somebody's arithmetic to overflow.
    package static let seqMax: Seq = 1 << 62
    /// What is said to people: longer is cut.
    package static let reasonBytesMax = 1024
    package static let detailBytesMax = 4096
    /// A peer cannot send others away for ever.
    package static let retryAfterMillisecondsMax: UInt64 = 86_400_000
}
