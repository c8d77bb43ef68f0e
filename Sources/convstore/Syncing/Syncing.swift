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
