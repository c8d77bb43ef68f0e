import EventLog
@testable public import Replication

/// The sessions in each of their states (docs/PROTOCOL.md, "States").
enum HubState: String, CaseIterable, Sendable {
    case awaitingHello, authenticating, beginning, open, refreshing, closed

    func make(_ hello: Hello = FrameSamples.hello(), at now: Instant = 0, expiresAt: UInt64? = nil, isService: Bool = false) -> HubSession {
        var session = HubSession(at: now, seed: 7)
        if self == .awaitingHello { return session }
        _ = session.receive(Frame.hello(hello).encoded(), at: now)
        if self == .authenticating { return session }
        _ = session.authenticated(.success(Identity(user: hello.user, isService: isService, expiresAt: expiresAt)), at: now)
        if self == .beginning { return session }
        _ = session.welcome(FrameSamples.welcome, at: now)
        if self == .refreshing { _ = session.receive(Frame.token("new").encoded(), at: now) }
        if self == .closed { _ = session.end(Bye(.normal)) }
        return session
    }
}

enum ReplicaSessionState: String, CaseIterable, Sendable {
    case idle, awaitingWelcome, open, closed

    func make(_ welcome: Welcome = FrameSamples.welcome, at now: Instant = 0) -> ReplicaSession {
        var session = ReplicaSession(at: now, seed: 7)
        if self == .idle { return session }
        var hello = FrameSamples.hello()
        (hello.takesProgress, hello.takesUnreadable) = (true, true)
        _ = session.start(hello, at: now)
        if self == .awaitingWelcome { return session }
        _ = session.receive(Frame.welcome(welcome).encoded(), at: now)
        if self == .closed { _ = session.end(Bye(.normal)) }
        return session
    }
}

/// A moment by clocks that agree.
extension Instant: ExpressibleByIntegerLiteral {
    public init(integerLiteral milliseconds: UInt64) { self.init(wallMilliseconds: milliseconds, monotonicMilliseconds: milliseconds) }

    static func += (instant: inout Instant, milliseconds: UInt64) {
        instant.wallMilliseconds += milliseconds
        instant.monotonicMilliseconds += milliseconds
    }
}

extension [HubSession.Effect] {
    /// The BYE with which a session ended, if these are just what ends one from the hub's side.
    var bye: Bye? {
        guard count == 2, case .send(.bye(let bye)) = self[0], self[1] == .close(bye) else { return nil }
        return bye
    }

    var sent: [Frame] { compactMap { if case .send(let frame) = $0 { frame } else { nil } } }
}

extension [ReplicaSession.Effect] {
    var bye: Bye? {
        guard count == 2, case .send(.bye(let bye)) = self[0], self[1] == .ended(bye, byHub: false) else { return nil }
        return bye
    }

    var sent: [Frame] { compactMap { if case .send(let frame) = $0 { frame } else { nil } } }
}
