package import EventLog

/// Runs jobs one after the other, in the order in which they were posted, on whatever runs them: what they share needs no other lock.
package final class Mailbox: Sendable {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var isRunning = false
        var afterwards: (@Sendable () -> Void)?
    }
    private let state = Monitor(State())
    private let execution: Execution

    package init(_ execution: Execution) { self.execution = execution }

    package func post(_ job: @escaping @Sendable () -> Void) {
        if starts(with: job) { execution.run { self.drain() } }
    }

    /// Runs a job on the calling thread, unless one runs: then who runs that takes this one too.
    package func run(_ job: @escaping @Sendable () -> Void) {
        if starts(with: job) { drain() }
    }

    /// The one or the other: a thread that may wait saves waking one that does the job.
    func post(mayWait: Bool, _ job: @escaping @Sendable () -> Void) {
        if mayWait { run(job) } else { post(job) }
    }

    /// Calls something when no job is left, on the thread of the last one. From a job; there is one such call.
    package func whenIdle(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.afterwards = body } }

    private func starts(with job: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            state.jobs.append(job)
            defer { state.isRunning = true }
            return !state.isRunning
        }
    }

    private func drain() {
        while true {
            let (jobs, afterwards) = state.withLock { state -> ([@Sendable () -> Void], (@Sendable () -> Void)?) in
                if state.jobs.isEmpty {
                    state.isRunning = false
                    defer { state.afterwards = nil }
                    return ([], state.afterwards)
                }
                defer { state.jobs = [] }
                return (state.jobs, nil)
            }
            if jobs.isEmpty {
                afterwards?()
                return
            }
            for job in jobs { job() }
        }
    }

    package var count: Int { state.withLock { $0.jobs.count } }
}

/// What runs the engines' work: Swift's tasks, or the caller itself, so that a simulation has one thread.
public struct Execution: Sendable {
    package var run: @Sendable (@escaping @Sendable () -> Void) -> Void
    /// Runs what takes long: Swift's tasks share as many threads as there are processors, and others wait for one.
    package var runLong: @Sendable (@escaping @Sendable () -> Void) -> Void
    /// How many such run at once; others take turns with them.
    package var longAtOnce: Int
    package var append: @Sendable (EventStore, [Submission], @escaping @Sendable (Result<[AppendOutcome], any Error>) -> Void) -> Void
    package var now: @Sendable () -> Instant
    /// Randomness: a seed for a session, an incarnation, a nonce's half.
    package var random: @Sendable () -> UInt64

    package init(
        run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
        runLong: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void, longAtOnce: Int,
        append: @escaping @Sendable (EventStore, [Submission], @escaping @Sendable (Result<[AppendOutcome], any Error>) -> Void) -> Void,
        now: @escaping @Sendable () -> Instant, random: @escaping @Sendable () -> UInt64
    ) {
        self.run = run
        self.runLong = runLong
        self.longAtOnce = longAtOnce
        self.append = append
        self.now = now
        self.random = random
    }

    public static let tasks = Execution(
        run: { job in Task { job() } },
        runLong: { WorkerThread.start($0) }, longAtOnce: WorkerThread.processors,
        append: { store, submissions, reply in store.append(submissions, reply: reply) },
        now: { .now }, random: { .random(in: 1 ... .max) })

    /// Everything on the calling thread.
    package static func inline(now: @escaping @Sendable () -> Instant, random: @escaping @Sendable () -> UInt64) -> Execution {
        Execution(
            run: { $0() },
            runLong: { $0() }, longAtOnce: 1,
            append: { store, submissions, reply in reply(Result { try store.appendBlocking(submissions) }) },
            now: now, random: random)
    }
}
