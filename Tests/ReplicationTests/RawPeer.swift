import ConversationStore

@testable import Replication

/// A peer of a hub that says what a test has it say, once it was welcomed.
final class RawPeer: Sendable {
    private let heard = Monitor<(frames: [Frame], end: Bye?)>(([], nil))
    private nonisolated(unsafe) var connection: HubConnection!
    let replica: ReplicaID
    /// Whether the transport takes events.
    let takesMore: Monitor<Bool>

    init(_ hub: Hub, _ user: UserID, takesMore: Bool = true, _ change: (inout Hello) -> Void = { _ in }) async throws {
        self.takesMore = Monitor(takesMore)
        let nonce = [UInt8](0..<16)
        replica = Replicas.id(user: user, nonce: nonce)
        var hello = Hello(
            versions: 1...1, replica: replica, nonce: nonce, user: user, token: "", cursor: nil, scope: .mine, credit: 8 << 20, pushed: [],
            checkpointSize: 0, wantsFirstScreen: false)
        change(&hello)
        connection = hub.connect(
            send: { [heard] bytes in heard.withLock { heard in if let frame = try? Frame(decoding: bytes) { heard.frames.append(frame) } } },
            close: { [heard] bye in heard.withLock { $0.end = bye } }, takesMore: { [takesMore = self.takesMore] in takesMore.withLock { $0 } })
        send(.hello(hello))
        // What the session begins with must not come among what a test asks for: a peer that holds nothing is told its end, and PONG comes behind the rest.
        try await eventually { bye != nil || !frames.isEmpty }
        send(.ping(.max))
        let isNew = hello.cursor == nil && hello.scope == .mine
        try await eventually { bye != nil || frames.contains(.pong(.max)) && (!isNew || frames.contains { if case .caughtUp = $0 { true } else { false } }) }
        heard.withLock { heard in heard.frames.removeAll { $0 == .pong(.max) } }
    }

    func send(_ frame: Frame) { connection.receive(frame.encoded()) }
    func drained() { connection.drained() }
    func tick() { connection.tick() }
    func end() { connection.disconnected() }
    func forget() { heard.withLock { $0.frames = [] } }

    /// As if the peer had had so many events read beyond its allowance.
    func overspend(_ events: Int) { connection.mailbox.post { [self] in connection.allowance.spend(Effort(events: WorkAllowance.eventsMax + events)) } }

    /// As if the peer might have just so many events read.
    func spendAllBut(_ events: Int) {
        connection.mailbox.post { [self] in connection.allowance.spend(Effort(events: connection.allowance.left - events)) }
    }

    /// As if the peer had waited long enough to have as much read as ever, and as if so much time had passed that it is asked for.
    func refill() {
        connection.mailbox.post { [self] in
            connection.allowance = WorkAllowance(at: connection.now)
            connection.goOn()
        }
    }

    /// What it takes of its allowance to answer what is asked about a damaged run.
    func cost(of damaged: DamagedRun) async throws -> Int {
        try await withCheckedThrowingContinuation { continuation in
            connection.mailbox.post { [self] in
                let left = connection.allowance.left
                continuation.resume(with: Result { try connection.repair(damaged) }.map { left - connection.allowance.left })
            }
        }
    }

    /// What the hub remembers of it.
    func footprint() async -> Int {
        await withCheckedContinuation { continuation in connection.mailbox.post { [self] in continuation.resume(returning: connection.footprint) } }
    }

    var bye: Bye? { heard.withLock { $0.end } }
    var frames: [Frame] { heard.withLock { $0.frames } }
    var accepted: [Accepted] { frames.flatMap { frame -> [Accepted] in if case .accepted(let answers) = frame { answers } else { [] } } }
    var refused: [Refused] { frames.flatMap { frame -> [Refused] in if case .refused(let answers) = frame { answers } else { [] } } }
    var answers: Int { accepted.count + refused.count }
}
