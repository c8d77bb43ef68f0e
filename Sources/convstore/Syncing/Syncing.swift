import ConversationStore
import Replication
import ReplicationWebSocket

/// A run of `sync` or `follow`: the replica, the progress, and what is printed.
struct Syncing {
    let path: String
    let user: UserID
    let scope: Scope
    let follows: Bool
    let json: Bool
    var verifies = false

    func run(_ server: ServerOptions) throws {
        // Before a replica is made, which would be its user's for ever.
        do { _ = try ServerURL(server.url, .webSocket) } catch { throw Failure(.usage, error.description) }
        var options = server.options()
        options.scope = scope
        options.follows = follows
        let screen = SyncScreen(json: json, follows: follows)
        let opened = Monitor<Replica?>(nil)
        let run = SyncRun(
            options,
            open: { [path, user] in
                let replica = try Replica.open(at: path, user: user)
                opened.withLock { $0 = replica }
                return replica
            },
            repair: { [path] in
                // Without a sound `sync` nothing can be asked.
                do { return try Repair.begin(at: path) } catch let error as EventLogError where error.code == .damaged { return nil }
            },
            salvage: { [self] in try heal(screen, orElse: salvage) },
            isDamaged: try verifies && leavesDamage(screen),
            observe: { update in screen.show(update, opened.withLock { $0 }) })
        if follows { Signals.whenTold { run.stop() } }
        defer { screen.clear() }
        let report: SyncRun.Report
        do {
            report = try waiting { try await run.run() }
        } catch let error as SyncError {
            throw Failure(error)
        }
        guard !follows else { return }
        let replica = try Replica.open(at: path, user: nil)
        defer { try? replica.close() }
        screen.clear()
        try screen.print(report, replica)
        if !report.unreadable.isEmpty { throw Failure(.unavailable, SyncScreen.told(unreadable: report.unreadable) + "; the next sync asks again") }
        // With a scope of newest parts the rest is not wanted.
        guard !scope.isOfParts, case let holes = replica.holes(in: scope).count, holes > 0 else { return }
        throw Failure(
            .unavailable,
            "the hub says that it has sent all, and has left out what is older of \(Quantity.count(holes, "conversation")): the next sync asks again")
    }

    /// Reads all that the replica holds, and mends what needs no hub. Answers whether its events are damaged.
    private func leavesDamage(_ screen: SyncScreen) throws -> Bool {
        guard StoreFiles.exists(path) else { return false }
        let damaged = try EventStore.verify(at: path).damaged
        if damaged.contains(.log), !damaged.contains(.side) { return true }
        if !damaged.isEmpty { try mend(damaged, screen) }
        return false
    }

    /// Mends what is damaged; does something else if all that is on the disk is sound.
    private func heal(_ screen: SyncScreen, orElse other: (SyncScreen) throws -> Void) throws {
        let damaged = try EventStore.verify(at: path).damaged
        if damaged.isEmpty { try other(screen) } else { try mend(damaged, screen) }
    }

    private func mend(_ damaged: Set<VerifyReport.Part>, _ screen: SyncScreen) throws {
        screen.clear()
        // The whole replica is written anew then.
        if damaged.contains(.log) { return try salvage(screen) }
        if damaged.contains(.side) { try healSide(screen) }
        if damaged.contains(.projections) { try rebuild(screen) }
    }

    private func salvage(_ screen: SyncScreen) throws {
        screen.clear()
        // Told before it is done, as below.
        Terminal.complain("\(path) is damaged: it is written anew of what can be read")
        let (saved, aside, lost) = try Replica.salvage(at: path, user: user)
        let beside = aside > 0 ? " (\(Quantity.count(aside)) of them kept aside until the hub has been asked)" : ""
        Terminal.complain("\(path) is damaged: \(Quantity.count(saved, "event")) saved\(beside), the hub is asked for the rest")
        complain(lost)
        screen.noteDamage("events", lost)
    }

    private func healSide(_ screen: SyncScreen) throws {
        // Told before it is done: who is killed in between would never hear of it.
        Terminal.complain("\(path)/sync is damaged: it is made anew of what can be read; events that were not sent yet may be lost")
        guard let (pending, lost) = try Replica.healSide(at: path, user: user) else { return }
        Terminal.complain(
            "\(path)/sync is damaged: made anew with \(Quantity.count(pending, "event")) of its outbox; what is held is compared with the hub")
        complain(lost)
        screen.noteDamage("sync", lost)
    }

    private func rebuild(_ screen: SyncScreen) throws {
        let store = try ConversationStore.open(at: path, options: ConversationStoreOptions(access: .existing))
        do {
            for name in store.projectionNames {
                try store.rebuild(name)
                Terminal.complain("\(path): what is shown of the log was damaged: the projection \(name) is built anew")
            }
        } catch {
            try? store.close()
            throw error
        }
        try store.close()
        screen.noteDamage("projections", [])
    }

    private func complain(_ lost: [String]) {
        for line in lost.prefix(20) { Terminal.complain("  lost: \(line)") }
        if lost.count > 20 { Terminal.complain("  and \(lost.count - 20) more") }
    }
}

extension Failure {
    init(_ error: SyncError) {
        switch error.code {
        case .invalidURL: self.init(.usage, error.description)
        case .unreadable: self.init(.noInput, error.description)
        case .invalidCertificates: self.init(.data, error.description)
        case .unreachable: self.init(.unavailable, error.description)
        case .refused: self.init(.data, error.description)
        case .noToken: self.init(.noPermission, "no token was given: the hub wants one (--token or --token-file)")
        case .unauthenticated: self.init(.noPermission, "the hub does not take the token: \(error.description)")
        case .tokenExpired: self.init(.noPermission, "the token has expired; what is in the outbox waits for a new one")
        }
    }
}
