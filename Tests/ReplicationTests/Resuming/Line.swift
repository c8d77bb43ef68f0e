import ConversationStore

@testable import Replication

/// A connection between a hub and a replica that counts what goes over it, and is lost at some moment.
final class Line: Sendable {
    struct Record {
        /// Of the replica's messages, and of the hub's that arrived.
        var up: [Frame] = []
        var down: [Frame] = []
        var bytesUp = 0
        var bytesDown = 0
        var events: [ReplicaEvent] = []
        var isLost = false
    }

    private let record = Monitor(Record())
    private let ends = Monitor<(hub: HubConnection?, replica: ReplicaConnection?)>((nil, nil))

    /// - Parameters:
    ///   - isLost: whether the connection is lost before the hub's next message, as it stands then.
    ///   - isLostUp: the same before the replica's next message.
    ///   - isLate: whether a message of the hub's does not come before that.
    ///   - hello: changes what the hub gets as HELLO.
    init(
        _ hub: Hub, _ replica: Replica, _ scope: Scope = .mine, isLost: @escaping @Sendable (Record, Frame) -> Bool = { _, _ in false },
        isLostUp: @escaping @Sendable (Record, Frame) -> Bool = { _, _ in false },
        isLate: @escaping @Sendable (Frame) -> Bool = { _ in false },
        hello: @escaping @Sendable (inout Hello) -> Void = { _ in }
    ) {
        let upper = hub.connect(
            send: { [record, ends] bytes in
                guard let frame = try? Frame(decoding: bytes), !isLate(frame) else { return }
                let (passes, isNewlyLost) = record.withLock { record -> (Bool, Bool) in
                    if record.isLost { return (false, false) }
                    record.isLost = isLost(record, frame)
                    if record.isLost { return (false, true) }
                    record.down.append(frame)
                    record.bytesDown += bytes.count
                    return (true, false)
                }
                if passes { ends.withLock { $0.replica }?.receive(bytes) }
                if isNewlyLost { ends.withLock { $0.replica }?.disconnected() }
            },
            close: { [ends] _ in ends.withLock { $0.replica }?.disconnected() })
        let lower = replica.connect(
            token: "", scope: scope,
            send: { [record, ends] bytes in
                guard var frame = try? Frame(decoding: bytes) else { return }
                if case .hello(var greeting) = frame {
                    hello(&greeting)
                    frame = .hello(greeting)
                }
                let (passes, isNewlyLost) = record.withLock { record -> (Bool, Bool) in
                    if record.isLost { return (false, false) }
                    record.isLost = isLostUp(record, frame)
                    if record.isLost { return (false, true) }
                    record.up.append(frame)
                    record.bytesUp += bytes.count
                    return (true, false)
                }
                if passes { ends.withLock { $0.hub }?.receive(frame.encoded()) }
                if isNewlyLost { ends.withLock { $0.replica }?.disconnected() }
            },
            close: { [ends] _ in ends.withLock { $0.hub }?.disconnected() },
            observe: { [record] event in record.withLock { $0.events.append(event) } })
        ends.withLock { $0 = (upper, lower) }
        lower.start()
    }

    var now: Record { record.withLock { $0 } }
    var isSettled: Bool { now.events.contains { if case .settled = $0 { true } else { false } } }
    var hasEnded: Bool { now.hasEnded }
    func end() { ends.withLock { $0.replica }?.end() }

    /// Until all is held, or the line is lost. Then it is over.
    @discardableResult
    func run() async throws -> Record {
        try await eventually { isSettled || hasEnded }
        end()
        try await eventually { hasEnded }
        ends.withLock { $0 = (nil, nil) }
        return now
    }
}

extension Line.Record {
    var hasEnded: Bool {
        events.contains {
            switch $0 {
            case .ended, .failed, .mustReopen: true
            default: false
            }
        }
    }

    var failure: (any Error)? {
        for case .failed(let error) in events { return error }
        return nil
    }

    var isSettled: Bool { events.contains { if case .settled = $0 { true } else { false } } }
    var isGone: Bool { down.contains { if case .welcome(let welcome) = $0 { welcome.isGone } else { false } } }
    var hello: Hello? { up.firstNonNil { if case .hello(let hello) = $0 { hello } else { nil } } }
    var told: [Progress] { down.compactMap { if case .progress(let progress) = $0 { progress } else { nil } } }
    var progress: [PartialCursor] { told.map(\.part) }
    /// Heads that the replica named.
    var named: [HeadsFrame.Item] { up.flatMap { frame -> [HeadsFrame.Item] in if case .heads(let heads) = frame { heads.heads } else { [] } } }
    /// Events of the hub's frames, held before or not.
    var eventsSent: Int {
        down.reduce(0) { $0 + $1.eventCount }
    }
    var eventsReceived: Int { events.reduce(0) { sum, event in if case .received(let count, _) = event { sum + count } else { sum } } }
}

extension Frame {
    var recorded: [RecordedEvent] {
        switch self {
        case .events(let frame): frame.items.compactMap { try? EventCodec.decode(envelope: $0.envelope, body: $0.body) }
        case .segment(let segment): (try? SegmentCodec.decode(segment.run)) ?? []
        default: []
        }
    }
    var eventCount: Int { recorded.count }
    var hasEvents: Bool { eventCount > 0 }
    /// Whether it has a log's head of a size.
    func names(_ log: LogID, size: UInt64) -> Bool {
        switch self {
        case .events(let frame): frame.logs.contains { $0.log == log && $0.head?.size == size }
        case .segment(let segment): segment.logs.contains { $0.log == log && $0.head?.size == size }
        default: false
        }
    }
}

extension Sequence {
    fileprivate func firstNonNil<T>(_ body: (Element) -> T?) -> T? {
        for element in self { if let found = body(element) { return found } }
        return nil
    }
}
