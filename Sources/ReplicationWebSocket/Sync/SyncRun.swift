public import Replication
internal import ConversationStore
public import EventLog

/// Syncs a replica with its hub over WebSocket: once, or for as long as it is let.
///
/// Connections that break are made anew, with exponential backoff and full jitter; a hub that says when to come again is obeyed.
public final class SyncRun: Sendable {
    public struct Options: Sendable {
        public var url: String
        public var scope = Scope.mine
        /// Asked before each connection: an expired token may have been renewed meanwhile.
        public var token: @Sendable () throws -> String
        /// Stays connected until ``SyncRun/stop()``.
        public var follows = false
        public var client = WebSocketClient.Options()
        /// Whether `token` may give another one some time later: a run that follows waits for it.
        public var renewsToken = true
        /// Connections in a row that may bring nothing before a run that does not follow gives up.
        public var attemptsMax = 5
        /// So long a hub may bring nothing and not say that it has sent all, before the connection is given up. An honest one may have each question of ours
        /// wait for 20 s, and for room on its disk 60 s.
        public var stallSeconds = 180
        /// A run that does not follow gives up where a hub asks to be left alone for longer.
        public var pauseSecondsMax: UInt64 = 120

        public init(url: String, token: @escaping @Sendable () throws -> String) {
            self.url = url
            self.token = token
        }
    }

    /// What a run did.
    public struct Report: Hashable, Sendable {
        public var eventsReceived = 0
        public var bytesReceived = 0
        public var bytesSent = 0
        public var accepted = 0
        public var refused = 0
        public var connections = 0
        /// What the hub could not read when it was connected last, and did not send: some of these logs is missing.
        public var unreadable: Set<LogID> = []

        /// Whether anything has come or was answered since.
        func hasProgressed(since before: Report) -> Bool {
            eventsReceived > before.eventsReceived || accepted > before.accepted || refused > before.refused
        }
    }

    public enum Update: Sendable {
        case connected
        /// The hub does not go on from what it had signed before: see `ReplicaEvent.setBack`.
        case setBack(evidence: String)
        case progress(Report)
        /// Connected, and for so long nothing came, though not all is held: its disk may be full, or it is no honest hub.
        case quiet(seconds: Int)
        /// The hub cannot read these logs of its store: of them it sends nothing more.
        case unreadable([LogID])
        /// Everything is held, but for what the hub cannot read, and the outbox is answered.
        case settled(Report)
        /// So many damaged runs were set right, by their parity or with bytes of the hub's; if not `isWhole`, the hub is asked next, or the replica salvaged.
        case repaired(runs: Int, isWhole: Bool)
        /// The connection broke; it is tried again after so many milliseconds.
        case waiting(milliseconds: UInt64, reason: String)
        case typing(Typing)
    }

    enum Happening: Sendable {
        case event(ReplicaEvent)
        case repair(RepairEvent)
        case tick
        case outbox
        case token(String)
        case stop
    }

    let options: Options
    let open: @Sendable () throws -> Replica
    private let repair: (@Sendable () throws -> Repair?)?
    private let salvage: (@Sendable () throws -> Void)?
    private let isDamaged: Bool
    let observe: @Sendable (Update) -> Void
    private let happenings: AsyncStream<Happening>
    let continuation: AsyncStream<Happening>.Continuation
    private let current = Monitor<Replica?>(nil)
    private let connecting = Connecting()

    /// - Parameters:
    ///   - open: opens the replica; again, after it had to set itself right.
    ///   - repair: called once, if bytes of the replica turn out to be damaged: what ``Repair/begin(at:options:)`` finds. Where it sets nothing right, or
    ///     not all, `salvage` follows.
    ///   - salvage: called once, if bytes of the replica turn out to be damaged, before it is opened anew; without it the run fails then.
    ///   - isDamaged: whether damage was found before the run.
    public init(
        _ options: Options, open: @escaping @Sendable () throws -> Replica, repair: (@Sendable () throws -> Repair?)? = nil,
        salvage: (@Sendable () throws -> Void)? = nil, isDamaged: Bool = false, observe: @escaping @Sendable (Update) -> Void = { _ in }
    ) {
        self.options = options
        self.open = open
        self.repair = repair
        self.salvage = salvage
        self.isDamaged = isDamaged
        self.observe = observe
        (happenings, continuation) = AsyncStream.makeStream()
    }

    /// Ends a run that follows. Safe from any thread.
    public func stop() {
        connecting.stop()
        continuation.yield(.stop)
    }

    /// Something was written into the replica: it is sent at once, if there is a connection, and not within a second. Safe from any thread.
    public func outboxChanged() { continuation.yield(.outbox) }

    /// Goes on with a new token, if there is a connection; each new one asks for its own. Safe from any thread.
    public func renew(token: String) { continuation.yield(.token(token)) }

    /// - Throws: `SyncError`; what opening the replica throws; `ReplicaError` when the hub's history cannot be believed.
    public func run() async throws -> Report {
        var report = Report()
        do { try await run(&report) } catch is Stopped {}
        return report
    }

    /// Told to stop before there was a session.
    struct Stopped: Error {}

    private func run(_ report: inout Report) async throws {
        var happenings = happenings.makeAsyncIterator()
        let ticking = Task { [continuation] in
            while (try? await Task.sleep(for: .seconds(1))) != nil { continuation.yield(.tick) }
        }
        defer { ticking.cancel() }
        var healing = Healing(repair: repair, salvage: salvage)
        if isDamaged { try await heal(&healing, &report, &happenings) }
        var replica = try await openSound(&healing, &report, &happenings)
        defer { try? replica.close() }
        var failures = 0
        var reopenings = 0
        while true {
            var bye: Bye?
            let before = report
            do {
                switch try await session(replica, &report, &happenings) {
                case .done: return
                case .reopen:
                    try replica.close()
                    replica = try await openSound(&healing, &report, &happenings)
                    reopenings += 1
                    // One is what a restored hub asks for; a hub that asks for more and more is not met by a machine that does nothing else.
                    guard reopenings > Self.reopeningsAtOnce else { continue }
                    bye = Bye(.normal, "the replica sets itself right again and again")
                case .settledThenLost(let end):
                    failures = 0
                    reopenings = 0
                    bye = end
                case .lost(let end):
                    bye = end
                    // It took minutes: a third time would bring no more.
                    if end == Self.stalled { failures += 2 }
                }
            } catch let error as EventLogError where error.code == .damaged && healing.isPossible {
                try? replica.close()
                try await heal(&healing, &report, &happenings)
                replica = try await openSound(&healing, &report, &happenings)
                continue
            } catch let error as ReplicaError where error.code == .forked && healing.isPossible {
                let isVouched = replica.isVouched
                try? replica.close()
                // A log that contradicts itself may be what spoke against the hub. What is vouched for stays so: one that did fork is found out again.
                guard isVouched, (try? EventStore.verify(at: replica.store.log.path))?.isOnlyContradicted ?? false else { throw error }
                try await heal(&healing, &report, &happenings)
                replica = try await openSound(&healing, &report, &happenings)
                replica.keepEvidence("when this was found, a log of the replica's own contradicted itself; all of it was asked for anew")
                continue
            } catch let error as WebSocketError where error.mayPass {
                bye = Bye(.goingAway, error.description)
                if !options.follows, report.connections == 0 { throw SyncError(.unreachable, error.description) }
            } catch let error as WebSocketError {
                throw SyncError(error)
            }
            // A line that breaks and each time brings some of what is missing gets there.
            if report.hasProgressed(since: before) { failures = 0 }
            failures += 1
            let reason = bye.map(told) ?? ""
            switch bye?.code {
            case .unauthenticated, .tokenExpired, .forbidden:
                // The outbox is parked; somebody may renew the token while we follow.
                guard options.follows, options.renewsToken else { throw notLetIn(bye!) }
            case .unsupportedVersion, .protocolError, .forked: throw SyncError(.refused, "the session ended: \(reason)")
            default:
                if !options.follows, failures >= options.attemptsMax { throw SyncError(.unreachable, "the hub could not be held: \(reason)") }
                if !options.follows, let pause = bye?.retryAfterMilliseconds, pause > options.pauseSecondsMax * 1000 {
                    throw SyncError(.unreachable, "the hub asks to be left alone for \(pause / 1000) s: \(reason)")
                }
            }
            let wait = Backoff.milliseconds(failure: failures, atLeast: bye?.retryAfterMilliseconds ?? 0)
            observe(.waiting(milliseconds: wait, reason: reason))
            if try await pause(wait, &happenings) { return }
        }
    }

    private static let reopeningsAtOnce = 2
    private static let quietSeconds = 20
    private static let stalled = Bye(.timeout, "the hub brings nothing more, and does not say that it has sent all")

    private enum End { case done, reopen, lost(Bye), settledThenLost(Bye) }

    /// Connects, and begins what the closure makes of the socket.
    func begin<Connection: ReplicaEnd>(
        _ report: inout Report, _ make: (_ send: @escaping @Sendable ([UInt8]) -> Void, _ close: @escaping @Sendable (Bye) -> Void) -> Connection
    ) async throws -> (Connection, Wire) {
        let wire = Wire()
        let client = try await connecting.client { [options] in
            try await WebSocketClient.connect(
                to: options.url, maxMessageBytes: WireLimits.messageBytesMax, options: options.client,
                onMessage: { message in
                    wire.received(message.count)
                    wire.connection?.receive(message, mayWait: true)
                },
                onProgress: {
                    wire.progressed()
                    wire.connection?.progressed()
                },
                onClose: { _, _ in wire.connection?.disconnected() })
        }
        report.connections += 1
        let connection = make(
            { message in
                wire.sent(message.count)
                client.send(message)
            },
            { client.close(SocketEnd($0)) })
        wire.join(connection)
        connection.start()
        return (connection, wire)
    }

    private func session(_ replica: Replica, _ report: inout Report, _ happenings: inout AsyncStream<Happening>.Iterator) async throws -> End {
        // Before there is a socket: a provider that throws must not leave one open.
        var token = try options.token()
        let (connection, wire) = try await begin(&report) { send, close in
            replica.connect(token: token, scope: options.scope, send: send, close: close) { [continuation] in continuation.yield(.event($0)) }
        }
        var isSettled = false
        var isEnding = false
        var idleSeconds = 0
        while let happening = await happenings.next() {
            (report.bytesReceived, report.bytesSent) = wire.add(to: report)
            switch happening {
            case .tick:
                connection.tick()
                idleSeconds = wire.takeProgress() ? 0 : idleSeconds + 1
                if !isSettled, !isEnding {
                    if idleSeconds == options.stallSeconds {
                        connection.end()
                    } else if idleSeconds > 0, idleSeconds % Self.quietSeconds == 0 {
                        observe(.quiet(seconds: idleSeconds))
                    }
                }
                // A token that was renewed in its file is shown before the old one runs out. While it is written, the file may be empty.
                if let new = try? options.token(), !new.isEmpty, new != token {
                    token = new
                    connection.renew(token: new)
                }
                connection.outboxChanged()
            case .outbox: connection.outboxChanged()
            case .token(let token): connection.renew(token: token)
            case .stop:
                isEnding = true
                connection.end()
            case .event(let event):
                switch event {
                case .connected, .received, .answered: idleSeconds = 0
                default: break
                }
                switch event {
                case .connected:
                    report.unreadable = []
                    observe(.connected)
                case .setBack(let evidence): observe(.setBack(evidence: evidence))
                case .received(let events, _):
                    report.eventsReceived += events
                    observe(.progress(report))
                case .answered(let accepted, let refused):
                    report.accepted += accepted
                    report.refused += refused
                    observe(.progress(report))
                case .unreadable(let logs):
                    report.unreadable.formUnion(logs)
                    observe(.unreadable(logs))
                case .settled:
                    isSettled = true
                    observe(.settled(report))
                    if !options.follows {
                        isEnding = true
                        connection.end()
                    }
                case .typing(let typing): observe(.typing(typing))
                case .ended(let bye):
                    if isEnding { return .done }
                    if !isSettled, bye.code == .normal, idleSeconds >= options.stallSeconds { return .lost(Self.stalled) }
                    return isSettled ? .settledThenLost(bye) : .lost(bye)
                case .failed(let error): throw error
                case .mustReopen: return .reopen
                }
            case .repair: break
            }
        }
        return .done
    }

    /// Why the hub ended a session.
    func told(_ bye: Bye) -> String { lacksToken(bye) ? "no token was given, and the hub wants one" : bye.told }

    /// What ends a run whose token is not taken.
    func notLetIn(_ bye: Bye) -> SyncError {
        if bye.code == .tokenExpired { return SyncError(.tokenExpired, told(bye)) }
        return SyncError(lacksToken(bye) ? .noToken : .unauthenticated, told(bye))
    }

    /// Whoever has shown none would look in vain for what is wrong with it.
    private func lacksToken(_ bye: Bye) -> Bool { bye.code == .unauthenticated && (try? options.token())?.isEmpty ?? false }

    /// - Returns: whether it was told to stop.
    func pause(_ milliseconds: UInt64, _ happenings: inout AsyncStream<Happening>.Iterator) async throws -> Bool {
        let waking = Task { [continuation] in
            try await Task.sleep(for: .milliseconds(milliseconds))
            continuation.yield(.event(.mustReopen))
        }
        defer { waking.cancel() }
        while let happening = await happenings.next() {
            switch happening {
            case .stop: return true
            case .event(.mustReopen): return false
            default: break
            }
        }
        return true
    }

    /// The session's end of a socket that may speak before the session stands.
    final class Wire: Sendable {
        private struct State {
            var connection: (any ReplicaEnd)?
            var received = 0, sent = 0
            var hasProgressed = false
        }
        private let state = Monitor(State())

        var connection: (any ReplicaEnd)? { state.withLock { $0.connection } }
        func join(_ connection: any ReplicaEnd) { state.withLock { $0.connection = connection } }
        func sent(_ bytes: Int) { state.withLock { $0.sent += bytes } }
        func received(_ bytes: Int) { state.withLock { $0.received += bytes } }

        func progressed() { state.withLock { $0.hasProgressed = true } }
        /// Whether bytes of a message that is not whole have come since this was asked last.
        func takeProgress() -> Bool {
            state.withLock { state in
                defer { state.hasProgressed = false }
                return state.hasProgressed
            }
        }

        /// The bytes of a report's messages, with those since it was asked last.
        func add(to report: Report) -> (received: Int, sent: Int) {
            state.withLock { state in
                defer { (state.received, state.sent) = (0, 0) }
                return (report.bytesReceived + state.received, report.bytesSent + state.sent)
            }
        }
    }
}

/// How long to wait before the next try: exponential, with full jitter, so that a hub that comes back is not met by all at once.
enum Backoff {
    static let firstMilliseconds: UInt64 = 500, mostMilliseconds: UInt64 = 30_000

    static func milliseconds(failure number: Int, atLeast least: UInt64) -> UInt64 {
        let bound = min(mostMilliseconds, firstMilliseconds << UInt64(min(max(number - 1, 0), 10)))
        return least + .random(in: 0...bound)
    }
}

/// Why a replica could not be synced.
public struct SyncError: Error, Sendable, CustomStringConvertible {
    public enum Code: Hashable, Sendable { case invalidURL, unreadable, invalidCertificates, unreachable, noToken, unauthenticated, tokenExpired, refused }
    public let code: Code
    public let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// What ends a run that cannot wait.
    init(_ error: WebSocketError) {
        switch error.status {
        case 401, 403: self.init(.unauthenticated, error.description)
        case _ where error.code == .invalidURL: self.init(.invalidURL, error.description)
        case _ where error.code == .unreadable: self.init(.unreadable, error.description)
        case _ where error.code == .invalidCertificates: self.init(.invalidCertificates, error.description)
        default: self.init(.unreachable, error.description)
        }
    }
}

extension WebSocketError {
    /// Another try may do.
    package var mayPass: Bool {
        if let status { return status >= 500 || Self.statusesThatPass.contains(status) }
        return code == .refused || code == .unreachable || code == .timeout || code == .malformed
    }

    /// Of HTTP's 4xx those that say it themselves, as proxies do: Request Timeout, Too Early, Too Many Requests.
    private static let statusesThatPass: Set<Int> = [408, 425, 429]
}

extension Bye {
    /// Why, for people, on one line. A hub need not give a reason.
    package var told: String {
        let words = reason.split(whereSeparator: \.isNewline).joined(separator: " ")
        return words.isEmpty ? code.meaning : words
    }
}

extension Bye.Code {
    /// For people, of who ends a session with it.
    fileprivate var meaning: String {
        switch self {
        case .normal: "the hub has ended the session"
        case .goingAway: "the hub is going away"
        case .protocolError: "the hub cannot make sense of what it was sent"
        case .unsupportedVersion: "the hub speaks no version of the protocol that this program speaks"
        case .unauthenticated: "the token is not valid"
        case .tokenExpired: "the token has expired"
        case .forbidden: "the token does not allow that"
        case .overloaded: "the hub has too much to do"
        case .timeout: "the hub has waited too long for an answer"
        case .internalError: "something failed in the hub: its log says what"
        case .forked: "what the hub has and what is held here contradict each other"
        case .storeFull: "the hub's disk is full"
        }
    }
}
