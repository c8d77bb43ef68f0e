import ConversationStore
import Testing

@testable import Replication

/// What a session of a repair said.
final class RepairSession: Sendable {
    /// What a whole repair may cost on the wire.
    static let bytesMax = 128 << 10

    struct State {
        var sent: [[UInt8]] = []
        var received: [[UInt8]] = []
        var end: RepairEvent?
    }
    let state = Monitor(State())

    var end: RepairEvent? { state.withLock { $0.end } }
    var bytes: Int { state.withLock { ($0.sent + $0.received).reduce(0) { $0 + $1.count } } }
    var received: [Frame] { state.withLock { $0.received.compactMap { try? Frame(decoding: $0) } } }
    var repairs: Int { received.count { if case .repair = $0 { true } else { false } } }

    func isWhole(repaired: Int) -> Bool {
        if case .done(repaired, isWhole: true)? = end { true } else { false }
    }
}

/// Damage of closed devices, and what becomes of it.
extension World {
    /// Repairs a closed device through a hub whose frames may be changed on their way.
    func repair(
        _ path: String, through other: Hub? = nil, _ change: @escaping @Sendable (Frame) -> [Frame] = { [$0] },
        asked: @escaping @Sendable (Frame) -> Frame = { $0 }
    ) async throws -> RepairSession {
        let session = RepairSession()
        let repair = try #require(try Repair.begin(at: path))
        let lower = Monitor<RepairConnection?>(nil)
        let upper = (other ?? hub).connect(
            send: { message in
                for frame in (try? Frame(decoding: message)).map(change) ?? [] {
                    session.state.withLock { $0.received.append(frame.encoded()) }
                    lower.withLock { $0 }?.receive(frame.encoded())
                }
            }, close: { _ in lower.withLock { $0 }?.disconnected() })
        let connection = repair.connect(
            token: "",
            send: { message in
                session.state.withLock { $0.sent.append(message) }
                if let frame = try? Frame(decoding: message) { upper.receive(asked(frame).encoded()) }
            }, close: { _ in upper.disconnected() }, observe: { event in session.state.withLock { $0.end = event } })
        lower.withLock { $0 = connection }
        connection.start()
        try await eventually { session.end != nil }
        repair.close()
        return session
    }

    /// The bytes of a device's runs, as its archive holds them.
    func runs(_ path: String) throws -> [[UInt8]] {
        let count = try EventStore.damageRun(at: path, number: .max)
        var runs: [[UInt8]] = []
        for index in 0..<count { _ = try EventStore.damageRun(at: path, number: index, hasParity: true) { runs.append($0) } }
        return runs
    }

    /// Spoils the so-many-eth of a device's runs that came as they lie.
    func damage(_ path: String, _ number: Int = 0, _ change: (inout [UInt8]) -> Void = { $0[$0.count / 2] ^= 0x10 }) throws {
        let large = try runs(path).enumerated().filter { $0.element.count >= Replica.wholeBytesMin }.map(\.offset)
        try #require(large.indices.contains(number))
        _ = try EventStore.damageRun(at: path, number: large[number], change: change)
    }

    /// Nothing was repaired, and the ordinary way brings everything back.
    func expectSalvaged(_ path: String) async throws {
        let (_, _, lost) = try Replica.salvage(at: path)
        #expect(!lost.isEmpty)
        let device = try open(path, ada)
        try await sync(device)
        #expect(device.isWhole)
        var heads: [Head] = []
        try hubStore.log.forEachHead { head in
            if hub.withIndex({ $0.visibleSeq(of: head.log, for: Identity(user: ada), seesEverything: false) }) > 0 { heads.append(head) }
            return true
        }
        for head in heads { #expect(try device.store.log.head(of: head.log) == head) }
        try device.close()
        #expect(try EventStore.verify(at: path).problems.isEmpty)
    }
}
