import ConversationStore
import EventLog
import Replication
import ReplicationWebSocket
import Synchronization

/// A service that pushes events and keeps nothing: the load.
final class Writer: Sendable {
    private struct State {
        var counters: [LogID: UInt64] = [:]
        var sent: [UInt64] = []
        var acknowledged: [UInt64] = []
        var isOpen = false
        var failure: String?
    }

    private static let nonce = [UInt8](repeating: 7, count: 16)
    private let state = Mutex(State())
    private let client = Mutex<WebSocketClient?>(nil)
    private let user = UserID(HubProcess.service)!
    private let replica: ReplicaID
    /// In the ids of its messages, with their numbers.
    static let mark: UInt64 = 0xBEEF_0000_0000_4000

    /// - Parameter life: of a hub that was restarted, no counter may come twice.
    init(_ url: String, life: UInt8 = 0) async throws {
        var nonce = Self.nonce
        nonce[0] = life
        replica = Replicas.id(user: user, nonce: nonce)
        let client = try await WebSocketClient.connect(to: url) { [self] message in
            received(message)
        } onClose: { _, _ in
        }
        self.client.withLock { $0 = client }
        let hello =
            Protobuf.number(1, 1) + Protobuf.number(2, 1) + Protobuf.bytes(3, replica.bytes) + Protobuf.bytes(4, nonce)
            + Protobuf.bytes(5, Array(user.string.utf8)) + Protobuf.number(9, 8 << 20)
        client.send(Protobuf.bytes(1, hello))
        while true {
            let (isOpen, failure) = state.withLock { ($0.isOpen, $0.failure) }
            if isOpen { break }
            if let failure { throw DeviceError(failure) }
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    private func received(_ message: [UInt8]) {
        let now = nanoseconds()
        guard let frame = try? Frame(decoding: message) else { return state.withLock { $0.failure = "the hub sent no frame" } }
        switch frame {
        case .welcome: state.withLock { $0.isOpen = true }
        case .accepted(let answers): state.withLock { $0.acknowledged += [UInt64](repeating: now, count: answers.count) }
        case .refused(let answers): state.withLock { $0.failure = "refused: \(answers[0].code) \(answers[0].detail)" }
        case .bye(let bye): state.withLock { $0.failure = "BYE \(bye.code) \(bye.reason)" }
        case .ping(let id): client.withLock { $0 }?.send(Frame.pong(id).encoded())
        default: break
        }
    }

    /// Pushes a message in a frame of its own; `due` is the moment that counts.
    func push(_ text: String, number: Int, to conversation: ConversationID, as author: UserID, due: UInt64 = nanoseconds()) {
        let message = Event.Message(id: MessageID(high: Self.mark, low: UInt64(number)), role: .assistant, text: text)
        let event = Event(conversation: conversation, author: author, content: .messageSent(message))
        let counter = state.withLock { state in
            state.counters[event.log, default: 0] += 1
            state.sent.append(due)
            return state.counters[event.log]!
        }
        let origin = Origin(replica: replica, counter: counter, hlc: HLC(milliseconds: millisecondsSince1970()))
        let (envelope, body) = EventCodec.encode(
            RecordedEvent(log: event.log, seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: event, targetSeq: nil))
        let pushed = Protobuf.bytes(1, envelope) + Protobuf.bytes(2, body) + Protobuf.number(3, 1)
        client.withLock { $0 }?.send(Protobuf.bytes(3, Protobuf.bytes(1, pushed)))
    }

    /// Waits for the answers to all that was pushed; how long each took.
    func answers(withinSeconds seconds: Int = 10) async throws -> [UInt64] {
        let deadline = nanoseconds() + UInt64(seconds) * 1_000_000_000
        while true {
            let (sent, acknowledged, failure) = state.withLock { ($0.sent, $0.acknowledged, $0.failure) }
            if let failure { throw DeviceError(failure) }
            if sent.count == acknowledged.count { return zip(acknowledged, sent).map { $0 - min($0, $1) } }
            if nanoseconds() > deadline { throw DeviceError("\(sent.count - acknowledged.count) pushes were not answered") }
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    func close() { client.withLock { $0 }?.close() }
}
