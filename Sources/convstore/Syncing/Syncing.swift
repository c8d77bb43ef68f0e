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
            salvage: { [path] in try Self.salvage(path, screen) },
            observe: { update in screen.show(update, opened.withLock { $0 }) })
        if verifies { try verify(screen) }
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
    }

    /// Reads all that the replica holds, and sets aside what is damaged.
    private func verify(_ screen: SyncScreen) throws {
        guard StoreFiles.exists(path) else { return }
        if try !EventStore.verify(at: path).problems.isEmpty { try Self.salvage(path, screen) }
    }

    private static func salvage(_ path: String, _ screen: SyncScreen) throws {
        screen.clear()
        let (saved, lost) = try Replica.salvage(at: path)
        Terminal.complain("\(path) is damaged: \(Quantity.count(saved, "event")) saved, the hub is asked for the rest")
        for line in lost.prefix(20) { Terminal.complain("  lost: \(line)") }
        if lost.count > 20 { Terminal.complain("  and \(lost.count - 20) more") }
    }
}

extension Failure {
    init(_ error: SyncError) {
        switch error.code {
        case .invalidURL: self.init(.usage, error.description)
        case .unreachable: self.init(.unavailable, error.description)
        case .refused: self.init(.data, error.description)
        case .unauthenticated: self.init(.noPermission, "the hub does not take the token: \(error.description)")
        case .tokenExpired: self.init(.noPermission, "the token has expired; what is in the outbox waits for a new one")
        }
    }
}
