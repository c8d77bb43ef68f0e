/// Lets SIGINT, SIGTERM and SIGHUP end work that leaves something half made in a way that removes it: whoever works asks every now and then.
struct Interruption {
    /// The signal that came: the process ends as by it, once all is tidied up.
    struct Told: Error {
        let signal: CInt
    }

    /// From now on the signals are kept for ``check()``.
    init() { Signals.watch() }

    /// Throws `Told` if one came.
    func check() throws {
        if let signal = Signals.pending() { throw Told(signal: signal) }
    }
}
