import Dispatch
import EventLog
import Foundation
import Synchronization

/// The processes that are running, and whether they are to end.
final class Children: Sendable {
    private struct State {
        var running: [SeedProcess] = []
        var isStopped = false
        var wasTold = false
    }

    private let state = Mutex(State())
    private let signals = Monitor<[any DispatchSourceSignal]>([])

    /// Whether a signal has ended the run.
    var wasTold: Bool { state.withLock { $0.wasTold } }

    /// SIGINT and SIGTERM stop the run: worlds at hand are brought to their ends. The second one ends the process.
    func stopWhenTold() {
        let queue = DispatchQueue(label: "signals")
        for number in [SIGINT, SIGTERM] {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler { [self] in
                for number in [SIGINT, SIGTERM] { signal(number, SIG_DFL) }
                state.withLock { $0.wasTold = true }
                stop()
            }
            source.resume()
            signals.withLock { $0.append(source) }
        }
    }

    func beginAnew() { state.withLock { $0.isStopped = $0.wasTold } }

    /// Starts a process; false if none is to be started any more.
    func start(_ process: SeedProcess) -> Bool {
        state.withLock { state in
            if state.isStopped { return false }
            do { try process.start() } catch { fatalError("a process cannot be started: \(error)") }
            state.running.append(process)
            return true
        }
    }

    func forget(_ process: SeedProcess) { state.withLock { $0.running.removeAll { $0 === process } } }

    func stop() {
        state.withLock { state in
            state.isStopped = true
            for process in state.running { process.stop() }
        }
    }
}
