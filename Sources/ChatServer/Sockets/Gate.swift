import EventLog

/// Who may come in: counts the sockets, and closes for good at a shutdown.
package final class Gate: Sendable {
    private struct State {
        var sockets = 0
        var isClosed = false
    }

    private let state = Monitor(State())
    private let socketsMax: Int

    package init(socketsMax: Int) { self.socketsMax = socketsMax }

    package var sockets: Int { state.withLock { $0.sockets } }
    package var isClosed: Bool { state.withLock { $0.isClosed } }
    var hasRoom: Bool { state.withLock { !$0.isClosed && $0.sockets < socketsMax } }

    func close() { state.withLock { $0.isClosed = true } }
    func entered() { state.withLock { $0.sockets += 1 } }
    func left() { state.withLock { $0.sockets -= 1 } }
}
