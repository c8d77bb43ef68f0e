internal import EventLog

/// The wait for a server to answer, which a run that is told to stop gives up at once: who says nothing may take all of the time that it has for that.
final class Connecting: Sendable {
    private struct State {
        var isStopped = false
        var waiter: CheckedContinuation<WebSocketClient, any Error>?
    }

    private let state = Monitor(State())

    /// - Throws: `SyncRun.Stopped`; what `connect` throws.
    func client(_ connect: @escaping @Sendable () async throws -> WebSocketClient) async throws -> WebSocketClient {
        try await withCheckedThrowingContinuation { waiter in
            let isStopped = state.withLock { state in
                if !state.isStopped { state.waiter = waiter }
                return state.isStopped
            }
            if isStopped { return waiter.resume(throwing: SyncRun.Stopped()) }
            Task {
                do {
                    let client = try await connect()
                    // Nobody waits for it any more.
                    guard let waiter = takeWaiter() else { return client.close() }
                    waiter.resume(returning: client)
                } catch {
                    takeWaiter()?.resume(throwing: error)
                }
            }
        }
    }

    /// For good.
    func stop() {
        state.withLock { $0.isStopped = true }
        takeWaiter()?.resume(throwing: SyncRun.Stopped())
    }

    private func takeWaiter() -> CheckedContinuation<WebSocketClient, any Error>? {
        state.withLock { state in
            defer { state.waiter = nil }
            return state.waiter
        }
    }
}
