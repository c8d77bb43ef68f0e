import ConversationStore
import EventLog
import Replication
import ReplicationWebSocket
import Synchronization

/// A replica on a WebSocket, as `SyncRun` has it, with what passes over the wire noted.
final class Device: Sendable {
    struct Passed: Sendable {
        var isIn: Bool
        var number: UInt8
        var message: [UInt8]
        var at: UInt64
    }

    struct State {
        var connection: ReplicaConnection?
        var client: WebSocketClient?
        var passed: [Passed] = []
        /// Frames of events that were kept.
        var kept = 0
        var settledAt: UInt64?
        var ending: String?
        var onKept: (@Sendable (Int) -> Void)?
    }

    let replica: Replica
    private let state = Mutex(State())
    private let notes: Bool

    /// - Parameter notes: whether messages are kept for looking at.
    init(_ replica: Replica, notes: Bool = false) {
        self.replica = replica
        self.notes = notes
    }

    /// A device beside a thousand others: their journals and threads would be this machine's trouble, not a device's.
    static func open(_ path: String, user: UserID) throws -> Device {
        var options = ReplicaOptions()
        options.store.journalBytesMax = 256 << 10
        options.store.runsInline = true
        return Device(try Replica.open(at: path, user: user, options: options))
    }

    /// Tells which messages of a writer have just become durable here.
    func onDurable(_ body: @escaping @Sendable (_ author: UserID, _ number: Int) -> Void) {
        replica.store.tap { events in
            for event in events {
                guard case .messageSent(let message) = event.event.content, message.id.high == Writer.mark else { continue }
                body(event.event.author, Int(message.id.low))
            }
        }
    }

    /// Returns when the handshake is done and HELLO is on its way.
    func connect(_ url: String, token: String = "", onKept: (@Sendable (Int) -> Void)? = nil) async throws {
        state.withLock {
            $0 = State()
            $0.onKept = onKept
        }
        let client = try await WebSocketClient.connect(to: url) { [self] message in
            if notes { note(message, isIn: true) }
            state.withLock { $0.connection }?.receive(message, mayWait: true)
        } onClose: { [self] _, _ in
            state.withLock { $0.connection }?.disconnected()
        }
        let connection = replica.connect(token: token) { [self] message in
            if notes { note(message, isIn: false) }
            client.send(message)
        } close: { _ in
            client.close()
        } observe: { [self] event in
            observe(event)
        }
        state.withLock {
            $0.connection = connection
            $0.client = client
        }
        connection.start()
    }

    private func note(_ message: [UInt8], isIn: Bool) {
        let at = nanoseconds()
        let number = UInt8(truncatingIfNeeded: (UInt(message[0] & 0x7F) | (message[0] & 0x80 == 0 ? 0 : UInt(message[1]) << 7)) >> 3)
        state.withLock { $0.passed.append(Passed(isIn: isIn, number: number, message: message, at: at)) }
    }

    private func observe(_ event: ReplicaEvent) {
        switch event {
        case .received:
            let (kept, onKept) = state.withLock { state in
                state.kept += 1
                return (state.kept, state.onKept)
            }
            onKept?(kept)
        case .settled: state.withLock { if $0.settledAt == nil { $0.settledAt = nanoseconds() } }
        case .ended(let bye): state.withLock { $0.ending = "\(bye.code) \(bye.reason)" }
        case .failed(let error): state.withLock { $0.ending = "\(error)" }
        case .mustReopen: state.withLock { $0.ending = "must be reopened" }
        default: break
        }
    }

    /// Waits until all is held and answered.
    @discardableResult
    func settled(withinSeconds seconds: Int = 120) async throws -> UInt64 {
        let deadline = nanoseconds() + UInt64(seconds) * 1_000_000_000
        while true {
            let (at, ending) = state.withLock { ($0.settledAt, $0.ending) }
            if let at { return at }
            if let ending { throw DeviceError("the session of \(replica.user) ended: \(ending)") }
            if nanoseconds() > deadline { throw DeviceError("\(replica.user) did not settle in \(seconds) s") }
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    var passed: [Passed] { state.withLock { $0.passed } }
    var ending: String? { state.withLock { $0.ending } }

    func outboxChanged() { state.withLock { $0.connection }?.outboxChanged() }
    func tick() { state.withLock { $0.connection }?.tick() }

    func disconnect() async throws {
        state.withLock { $0.connection }?.end()
        while state.withLock({ $0.ending == nil }) { try await Task.sleep(for: .milliseconds(1)) }
    }
}
