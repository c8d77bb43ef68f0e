import EventLog
import NIOPosix

/// What came in on a socket, on its way to the receiver: one call at a time and in order, on a thread of a pool only while there is something to do.
final class Inbox: Sendable {
    private struct State {
        var receiver: (any SocketReceiver)?
        var messages: [[UInt8]] = []
        /// Messages of `messages` that were handed on.
        var done = 0
        var bytes = 0
        var end: SocketEnd??
        /// A thread is at work, or will be.
        var isRunning = false
        /// The socket reads nothing until there is room.
        var isFull = false
    }

    private enum Work {
        case message([UInt8])
        case end(SocketEnd?)
    }

    /// Calls in one go: then others who wait for the pool have their turn.
    private static let callsMax = 32

    private let state = Monitor(State())
    private let bytesMax: Int
    private let pool: NIOThreadPool
    private let hasRoom: @Sendable () -> Void

    init(bytesMax: Int, pool: NIOThreadPool, hasRoom: @escaping @Sendable () -> Void) {
        self.bytesMax = bytesMax
        self.pool = pool
        self.hasRoom = hasRoom
    }

    func open(_ receiver: any SocketReceiver) { state.withLock { $0.receiver = receiver } }

    /// Takes a message; false says that no more are to be read until `hasRoom` is called.
    func add(_ message: [UInt8]) -> Bool {
        let (starts, hasRoom) = state.withLock { state in
            guard state.end == nil else { return (false, true) }
            state.messages.append(message)
            state.bytes += message.count
            state.isFull = state.isFull || state.bytes >= bytesMax
            return (Self.starts(&state), !state.isFull)
        }
        if starts { submit() }
        return hasRoom
    }

    /// Passes on that the socket takes more.
    func drained() { state.withLock { $0.end == nil ? $0.receiver : nil }?.drained() }

    /// Passes on that more of a message has come.
    func progressed() { state.withLock { $0.end == nil ? $0.receiver : nil }?.progressed() }

    func end(_ end: SocketEnd?) {
        let starts = state.withLock { state in
            guard state.end == nil else { return false }
            state.end = .some(end)
            return Self.starts(&state)
        }
        if starts { submit() }
    }

    private static func starts(_ state: inout State) -> Bool {
        defer { state.isRunning = true }
        return !state.isRunning
    }

    private func submit() { pool.submit { [self] _ in run() } }

    private func run() {
        var calls = 0
        while let (work, receiver) = next() {
            switch work {
            case .message(let message):
                receiver.receive(message)
                if done(message.count) { hasRoom() }
            case .end(let end): receiver.ended(end)
            }
            calls += 1
            if calls == Self.callsMax { return submit() }
        }
    }

    private func next() -> (Work, any SocketReceiver)? {
        state.withLock { state in
            guard let receiver = state.receiver else {
                state.isRunning = false
                return nil
            }
            if state.done < state.messages.count {
                defer { state.done += 1 }
                return (.message(state.messages[state.done]), receiver)
            }
            state.messages = []
            state.done = 0
            if let end = state.end {
                // The receiver and the socket hold each other until here.
                state.receiver = nil
                return (.end(end), receiver)
            }
            state.isRunning = false
            return nil
        }
    }

    /// Whether there is room again where there was none.
    private func done(_ bytes: Int) -> Bool {
        state.withLock { state in
            state.bytes -= bytes
            guard state.isFull, state.bytes <= bytesMax / 2 else { return false }
            state.isFull = false
            return true
        }
    }
}
