internal import ConversationStore
internal import Replication

/// Whether a device at rest holds and shows just what it has asked for and its user may see.
struct DeviceCheck {
    private let device: DeviceNode
    private let replica: Replica
    private let hub: HubNode
    private let held: [LogID: HeldLog]
    private let ends: [LogID: Seq]

    /// `nil` if the device or the hub is down.
    init?(_ device: DeviceNode, _ hub: HubNode) throws {
        guard let replica = device.replica, hub.isUp else { return nil }
        self.device = device
        self.replica = replica
        self.hub = hub
        held = try HeldLog.all(of: replica)
        ends = hub.history.ends(for: device.user)
    }

    func run() throws {
        if let lack = device.lacking(replica).sorted().first { throw failure("lacks \(lack)") }
        for log in held.keys.sorted() { try checkLog(log, held[log]!) }
        try checkHoles()
        try checkHeads()
        if device.isFollower { try checkLobbies() } else { try checkScreens() }
        guard try replica.store.isFold() else { throw failure("I4: its projections are not the fold of its log") }
        guard replica.isOutboxAnswered(in: device.scope) else { throw failure("keeps \(replica.outbox) in its outbox") }
        if device.scope == .mine || device.scope == .everything, !replica.outbox.isEmpty { throw failure("keeps \(replica.outbox) in its outbox") }
    }

    private func failure(_ what: String) -> SimulationFailure { SimulationFailure("\(device.name), which asks for \(device.scope): \(what)") }

    /// Of what a device does not ask for any more, it may hold what the hub has lost since.
    private func isCompared(_ log: LogID) -> Bool { device.covers(log) || hub.restores == 0 }

    // What it holds.

    private func checkLog(_ log: LogID, _ mine: HeldLog) throws {
        for event in mine.all {
            guard hub.history.wasRecorded(event) else { throw failure("seq \(event.seq) of \(log) is \(event), which the hub never had") }
            if event.isErased, !hub.history.wasErased(event), !(device.erased[log]?.contains(event.seq) ?? false) {
                throw failure("seq \(event.seq) of \(log) is without a body that nobody erased")
            }
        }
        guard isCompared(log) else { return }
        let theirs = hub.history.events(of: log, through: ends[log] ?? 0)
        guard mine.lastSeq <= theirs.count else { throw failure("holds \(mine.lastSeq) events of \(log), and may see \(theirs.count)") }
        for event in mine.all where !event.isSame(as: theirs[Int(event.seq) - 1]) {
            throw failure("I5: seq \(event.seq) of \(log) is \(event), the hub has \(theirs[Int(event.seq) - 1])")
        }
        guard let part = mine.part, part.isFirst, device.covers(log) else { return }
        guard case .conversation(let id) = log, hub.history.everFromJoining.contains(id) else {
            throw failure("\(log) begins at \(part.baseSeq + 1) for no reason")
        }
        guard part.baseSeq < hub.history.joinedSeq(device.user, in: log) else {
            throw failure("\(log) begins at \(part.baseSeq + 1), and its user came in at \(hub.history.joinedSeq(device.user, in: log))")
        }
    }

    private func checkHoles() throws {
        let expected = held.compactMap { log, mine in mine.hole.map { "\(log) \($0)" } }.sorted()
        let told = replica.holes.map { "\($0.log) \($0.seqs)" }.sorted()
        guard told == expected else { throw failure("tells of holes \(told), and has \(expected)") }
    }

    private func checkHeads() throws {
        guard let store = hub.store else { return }
        let heads = HeadCache(store: store.log)
        for (log, mine) in held where !mine.events.isEmpty && isCompared(log) {
            guard try replica.store.log.head(of: log)?.root == heads.tree(of: log, through: Seq(mine.events.count))?.root() else {
                throw failure("I5: has another head of \(log) at \(mine.events.count)")
            }
        }
    }

    // What it shows: what the model makes of the hub's log, as far as it is held.

    private func checkScreens() throws {
        let own = held[.user(device.user)]?.events ?? []
        let lobby = try replica.store.lobby(of: device.user, limit: .max).rows
        let rows = Dictionary(uniqueKeysWithValues: lobby.map { ($0.conversation, Model.LobbyRow($0)) })
        // What is on its way lies over what is confirmed.
        let pending = Set(replica.outbox.map(\.event.conversation))
        var shown: [RecordedEvent] = []
        var hidden: [ConversationID: Seq] = [:]
        for case (.conversation(let id), let mine) in held where isCompared(.conversation(id)) && !pending.contains(id) {
            if mine.part?.isFirst ?? false { hidden[id] = mine.part?.baseSeq }
            shown += try match(id, mine, rows[id], own, hidden)
        }
        let compared = Set(shown.map(\.event.conversation))
        let model = Model(shown + own, hidden: hidden)
        let found = difference(lobby.filter { compared.contains($0.conversation) }.map { Model.LobbyRow($0) }, model.lobby(device.user))
        if let found { throw failure("lobby: \(found)") }
        // What damage left of the user's own is shown as pending where the scope leaves out all else.
        let suspect = Set(try replica.suspectEvents().map(\.event.conversation))
        for row in lobby where !pending.union(suspect).contains(row.conversation) && held[.conversation(row.conversation)] == nil {
            throw failure("lobby: shows \(row.conversation), of which it holds nothing")
        }
    }

    /// A copy of everything has every user's screens.
    private func checkLobbies() throws {
        let model = Model(held.values.flatMap(\.all))
        for id in model.conversationIDs {
            let page = try replica.store.timeline(of: id, limit: .max)
            guard let page else { throw failure("has no timeline of \(id)") }
            let found = difference(page.messages.map { Model.TimelineRow($0, page.receipts) }, model.timeline(id)!)
            if let found { throw failure("timeline of \(id): \(found)") }
        }
        for user in device.simulation.users {
            let found = difference(try replica.store.lobby(of: user, limit: .max).rows.map { Model.LobbyRow($0) }, model.lobby(user))
            if let found { throw failure("lobby of \(user): \(found)") }
        }
    }

    /// The events that a conversation is shown as the fold of. A state that came from the hub may be of a time before something up to it was erased.
    private func match(
        _ id: ConversationID, _ mine: HeldLog, _ row: Model.LobbyRow?, _ own: [RecordedEvent], _ hidden: [ConversationID: Seq]
    ) throws -> [RecordedEvent] {
        let log = LogID.conversation(id)
        let erasures = mine.gap.map { hub.history.erasures(in: log, 1...$0.upperBound) } ?? [[]]
        var found: String?
        for erased in erasures {
            let events = events(log, mine, erased)
            let model = Model(events + own, hidden: hidden)
            let expected = model.lobby(device.user).first { $0.conversation == id }
            found = try timelineDifference(id, mine, model) ?? difference(row.map { [$0] } ?? [], expected.map { [$0] } ?? [])
            if found == nil { return events }
        }
        throw failure("\(id), held to \(mine.events.count), missing \(mine.gap.map { "\($0)" } ?? "nothing"): \(found ?? "")")
    }

    /// All events of a log up to the last that is held; those up to where a state came from the hub as it had them then.
    private func events(_ log: LogID, _ mine: HeldLog, _ erased: Set<Seq>) -> [RecordedEvent] {
        var events = hub.history.events(of: log, through: mine.lastSeq)
        for index in events.indices { events[index].isErased = erased.contains(events[index].seq) }
        for event in mine.all where event.seq > mine.gap?.upperBound ?? 0 { events[Int(event.seq) - 1].isErased = event.isErased }
        return events
    }

    private func timelineDifference(_ id: ConversationID, _ mine: HeldLog, _ model: Model) throws -> String? {
        guard let page = try replica.store.timeline(of: id, limit: .max) else { throw failure("has no timeline of \(id)") }
        let gap = mine.gap
        let newest = model.timeline(id)!.filter { $0.seq > gap?.upperBound ?? 0 }
        let stale = gap == nil ? [] : model.timeline(id, before: Model(mine.events)) ?? []
        if let found = difference(page.messages.map { Model.TimelineRow($0, page.receipts) }, stale + newest) { return found }
        guard page.messages.allSatisfy({ $0.isStale == ($0.seq <= gap?.upperBound ?? 0) }) else { return "not all below the hole is shown as stale" }
        guard page.hole == mine.hole else { return "the hole is shown as \(String(describing: page.hole))" }
        return nil
    }

    /// Where the newest conversations are wanted: all of them are held, with as many of their messages.
    func checkNewest() throws {
        guard case .newest(let conversations, let messages) = device.scope else { return }
        let visible = ends.flatMap { hub.history.events(of: $0.key, through: $0.value) }
        let model = Model(visible)
        for row in model.lobby(device.user).prefix(Int(conversations)) {
            guard let page = try replica.store.timeline(of: row.conversation, limit: .max) else { throw failure("does not show \(row.conversation)") }
            let gap = held[.conversation(row.conversation)]?.gap
            let first = held[.conversation(row.conversation)]?.part?.isFirst ?? false ? gap?.upperBound ?? 0 : 0
            let all = model.timeline(row.conversation)!.filter { $0.seq > first }.count
            guard page.messages.filter({ !$0.isStale }).count >= min(all, Int(messages)) else {
                throw failure("shows \(page.messages.count) messages of \(row.conversation), which has \(all)")
            }
        }
    }
}
