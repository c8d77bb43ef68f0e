package import EventLog

/// Who may see what of each log, and where its last event stands: the one place where that is decided. In memory, folded from the log.
///
/// A replica that resumes is told what changed by looking at its user's conversations here, not by scanning what others wrote.
package struct HubIndex {
    private struct Member {
        var joinedSeq: Seq
        var leftSeq: Seq
        /// Where that lies; the greatest: it is not known, as it was before this process.
        var leftPosition: Position = .max
    }

    private struct Place {
        var lastSeq: Seq
        var lastPosition: Position
        var isEndKnown = true
        var members: [UserID: Member] = [:]
    }

    private var conversations: [ConversationID: Place] = [:]
    private var users: [UserID: Place] = [:]
    /// The conversations in which a user takes part or ever did.
    private var conversationsOf: [UserID: Set<ConversationID>] = [:]
    /// Logs in the order of their changes: of each that changed behind `recentFrom` the last change is here, and maybe earlier ones.
    private var recent: [(position: Position, log: LogID)] = []
    private var recentFrom: Position = 0
    private let recentMax: Int
    /// Everything up to here is in the index.
    package private(set) var position: Position = 0

    /// - Parameter recentMax: how many changes are looked up one by one; of what is older all logs of a user are looked at.
    package init(recentMax: Int = 1 << 16) { self.recentMax = recentMax }

    package init(_ store: EventStore) throws {
        self.init()
        try store.forEachLogPlace { place in
            var new = Place(lastSeq: place.lastSeq, lastPosition: place.lastPosition, isEndKnown: place.isEndKnown)
            switch place.log {
            case .conversation(let id):
                for person in place.people where person.joinedSeq != 0 || person.leftSeq != 0 {
                    new.members[person.user] = Member(joinedSeq: person.joinedSeq, leftSeq: person.leftSeq)
                    conversationsOf[person.user, default: []].insert(id)
                }
                conversations[id] = new
            case .user(let user): users[user] = new
            }
            position = max(position, place.lastPosition)
        }
        recentFrom = position
    }

    package mutating func fold(_ event: RecordedEvent) {
        // Events that were committed while the index was built may come twice.
        guard event.position > position else { return }
        position = event.position
        noteChange(of: event.log)
        guard case .conversation(let id) = event.log else {
            if case .user(let user) = event.log { users[user] = Place(lastSeq: event.seq, lastPosition: event.position) }
            return
        }
        var place = conversations[id] ?? Place(lastSeq: 0, lastPosition: 0)
        conversations[id] = nil
        place.lastSeq = event.seq
        place.lastPosition = event.position
        switch event.event.content {
        case .conversationCreated(_, _, let participants):
            for user in [event.event.author] + participants { join(user, id, event.seq, &place) }
        case .participantJoined(let user): join(user, id, event.seq, &place)
        case .participantLeft(let user):
            if PlantedBug.ignoreLeave.isPlanted { break }
            place.members[user, default: Member(joinedSeq: 0, leftSeq: 0)].joinedSeq = 0
            place.members[user]!.leftSeq = event.seq
            place.members[user]!.leftPosition = event.position
            conversationsOf[user, default: []].insert(id)
        default: break
        }
        conversations[id] = place
    }

    private mutating func noteChange(of log: LogID) {
        if recent.last?.log == log {
            recent[recent.count - 1].position = position
            return
        }
        recent.append((position, log))
        guard recent.count > recentMax else { return }
        recentFrom = recent[recentMax / 2 - 1].position
        recent.removeFirst(recentMax / 2)
    }

    /// The logs that changed behind a position, each once, if that is known and fewer changes are to be looked at than `countMax`.
    private func changedLogs(after position: Position, countMax: Int) -> Set<LogID>? {
        guard position >= recentFrom else { return nil }
        var (low, high) = (0, recent.count)
        while low < high {
            let middle = (low + high) / 2
            if recent[middle].position > position { high = middle } else { low = middle + 1 }
        }
        return recent.count - low < countMax ? Set(recent[low...].map(\.log)) : nil
    }

    private mutating func join(_ user: UserID, _ id: ConversationID, _ seq: Seq, _ place: inout Place) {
        place.members[user, default: Member(joinedSeq: 0, leftSeq: 0)].joinedSeq = seq
        conversationsOf[user, default: []].insert(id)
    }

    // Asking.

    /// The last seq of a log that a user may see: all of a conversation in which the user takes part, up to the leaving for who left, nothing for
    /// anybody else; and one's own log. 0: nothing.
    package func visibleSeq(of log: LogID, for identity: Identity, seesEverything: Bool) -> Seq {
        switch log {
        case .user(let user):
            guard user == identity.user || seesEverything else { return 0 }
            return users[user]?.lastSeq ?? 0
        case .conversation(let id):
            guard let place = conversations[id] else { return 0 }
            if seesEverything { return place.lastSeq }
            guard let member = place.members[identity.user] else { return PlantedBug.leakToStrangers.isPlanted ? place.lastSeq : 0 }
            return member.joinedSeq != 0 ? place.lastSeq : member.leftSeq
        }
    }

    /// Where a user came into a conversation last, 0 for who left since or never did; and where the user left last.
    package func membership(of user: UserID, in id: ConversationID) -> (joinedSeq: Seq, leftSeq: Seq) {
        conversations[id]?.members[user].map { ($0.joinedSeq, $0.leftSeq) } ?? (0, 0)
    }

    /// Whether a user never took part in a conversation, be it there or not.
    package func isStranger(_ user: UserID, to id: ConversationID) -> Bool { conversations[id]?.members[user] == nil }

    /// Up to which seq a conversation has nothing of a user's, who never took part in it; `nil`: it is not there, or the user did.
    package func seqWithout(_ user: UserID, in id: ConversationID) -> Seq? {
        conversations[id].flatMap { $0.members[user] == nil ? $0.lastSeq : nil }
    }

    /// Whether a user takes part now.
    package func isMember(_ user: UserID, of id: ConversationID) -> Bool { (conversations[id]?.members[user]?.joinedSeq ?? 0) != 0 }

    /// Who takes part in a conversation now.
    package func members(of id: ConversationID) -> [UserID] {
        conversations[id].map { place in place.members.filter { $0.value.joinedSeq != 0 }.map(\.key) } ?? []
    }

    /// A log that changed for a user behind a position.
    package struct Change {
        package var log: LogID
        package var lastPosition: Position
        /// Whether that is just where the log ends, and not behind it.
        package var isEndKnown: Bool
        /// The seq at which the user came in last, and the seq of the last leaving before it, if the coming may lie behind the cursor.
        package var joinedSeq: Seq
        package var leftSeq: Seq
    }

    /// The logs of a user in which anything happened behind a position that the user may see or could not see before.
    ///
    /// Looks at what changed since, or, where that is more, at all logs of the user's.
    package func changes(for identity: Identity, seesEverything: Bool, after position: Position) -> [Change] {
        var result: [Change] = []
        func add(_ log: LogID, _ place: Place, _ member: Member?) {
            guard place.lastPosition > position else { return }
            // Of what was left before nothing more is to be seen.
            if let member, member.joinedSeq == 0, member.leftSeq > 0, member.leftPosition <= position { return }
            result.append(
                Change(
                    log: log, lastPosition: place.lastPosition, isEndKnown: place.isEndKnown, joinedSeq: member?.joinedSeq ?? 0,
                    leftSeq: member?.leftSeq ?? 0))
        }
        let own = conversationsOf[identity.user] ?? []
        let isLeaking = PlantedBug.leakToStrangers.isPlanted
        let countMax = seesEverything ? conversations.count + users.count : own.count
        if !isLeaking, let changed = changedLogs(after: position, countMax: countMax) {
            for log in changed {
                switch log {
                case .conversation(let id):
                    guard let place = conversations[id] else { continue }
                    if seesEverything { add(log, place, nil) } else if let member = place.members[identity.user] { add(log, place, member) }
                case .user(let user): if seesEverything || user == identity.user, let place = users[user] { add(log, place, nil) }
                }
            }
            return result
        }
        if seesEverything {
            for (id, place) in conversations { add(.conversation(id), place, nil) }
            for (user, place) in users { add(.user(user), place, nil) }
            return result
        }
        for id in isLeaking ? Set(conversations.keys) : own {
            guard let place = conversations[id] else { continue }
            add(.conversation(id), place, place.members[identity.user])
        }
        if let place = users[identity.user] { add(.user(identity.user), place, nil) }
        return result
    }

    /// The connected users whom an event concerns: who takes part, and who just left with it.
    package func forEachConcerned(by event: RecordedEvent, _ body: (UserID) -> Void) {
        switch event.log {
        case .user(let user): body(user)
        case .conversation(let id):
            guard let place = conversations[id] else { return }
            for (user, member) in place.members where member.joinedSeq != 0 || member.leftSeq == event.seq { body(user) }
        }
    }
}
