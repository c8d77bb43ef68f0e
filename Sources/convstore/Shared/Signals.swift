import EventLog
import Glibc
import Synchronization

/// Signals that end a command in good order, and waiting that they end.
enum Signals {
    enum Wake: Equatable {
        /// The descriptor can be read, or is at its end.
        case readable
        case signal(String)
        /// Standard output has room.
        case writable
        /// Nobody reads standard output any more.
        case readerIsGone
        case timeout
    }

    /// The pipe through which the handler tells of a signal: nothing else is allowed in one.
    private static let pipe: (read: CInt, write: CInt) = {
        var ends: [CInt] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { return (-1, -1) }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        return (ends[0], ends[1])
    }()
    private static let writeEnd = Atomic<CInt>(-1)

    /// From now on SIGINT, SIGTERM and SIGHUP are told by ``wait(for:milliseconds:)`` instead of ending the process. Those that were to be ignored stay so.
    static func watch() {
        writeEnd.store(pipe.write, ordering: .relaxed)
        var handled: [CInt] = []
        for number in [SIGINT, SIGTERM, SIGHUP] {
            if isIgnored(number) { continue }
            handled.append(number)
            signal(number) { number in
                let before = errno
                var byte = UInt8(truncatingIfNeeded: number)
                _ = write(Signals.writeEnd.load(ordering: .relaxed), &byte, 1)
                errno = before
            }
        }
        // Some who start programs leave them with all signals blocked.
        var set = sigset_t()
        sigemptyset(&set)
        for number in handled { sigaddset(&set, number) }
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
    }

    /// Whether who started us wants the signal to be ignored, as `nohup` does.
    static func isIgnored(_ number: CInt) -> Bool {
        var old = sigaction()
        sigaction(number, nil, &old)
        return unsafeBitCast(old.__sigaction_handler.sa_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }

    /// Runs the closure, on a thread of its own, when SIGINT, SIGTERM or SIGHUP comes.
    static func whenTold(_ body: @escaping @Sendable () -> Void) {
        watch()
        WorkerThread.start {
            while true { if case .signal = wait() { body() } }
        }
    }

    /// When SIGINT, SIGTERM or SIGHUP comes, the process tidies up, on a thread of its own, and then ends of it.
    static func beforeDying(_ tidy: @escaping @Sendable () -> Void) {
        watch()
        WorkerThread.start {
            while true {
                var request = pollfd(fd: pipe.read, events: Int16(POLLIN), revents: 0)
                guard poll(&request, 1, -1) > 0, let number = pending() else { continue }
                tidy()
                die(of: number)
            }
        }
    }

    /// Waits until the descriptor can be read (if one is given), a signal came, standard output has room (if asked for), its reader went away, or the time
    /// is over.
    static func wait(for descriptor: CInt? = nil, watchesReader: Bool = false, writes: Bool = false, milliseconds: Int = -1) -> Wake {
        var requests = [pollfd(fd: pipe.read, events: Int16(POLLIN), revents: 0)]
        requests.append(pollfd(fd: descriptor ?? -1, events: Int16(POLLIN), revents: 0))
        requests.append(pollfd(fd: watchesReader || writes ? STDOUT_FILENO : -1, events: writes ? Int16(POLLOUT) : 0, revents: 0))
        while true {
            let count = poll(&requests, nfds_t(requests.count), CInt(clamping: milliseconds))
            if count < 0, errno == EINTR { continue }
            if requests[0].revents != 0 {
                var byte: UInt8 = 0
                if Glibc.read(pipe.read, &byte, 1) == 1 { return .signal(name(CInt(byte))) }
            }
            if requests[1].revents != 0 { return .readable }
            if requests[2].revents & Int16(POLLERR | POLLHUP | POLLNVAL) != 0 { return .readerIsGone }
            if requests[2].revents & Int16(POLLOUT) != 0 { return .writable }
            if count <= 0 { return .timeout }
        }
    }

    /// Waits until standard output has room or its reader is gone, a signal came, which stays to be asked for, or the time is over.
    static func waitToWrite(milliseconds: Int) -> Wake {
        var requests = [
            pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0), pollfd(fd: pipe.read, events: Int16(POLLIN), revents: 0),
        ]
        while true {
            let count = poll(&requests, nfds_t(requests.count), CInt(clamping: milliseconds))
            if count < 0, errno == EINTR { continue }
            if requests[0].revents & Int16(POLLERR | POLLHUP | POLLNVAL) != 0 { return .readerIsGone }
            if requests[0].revents != 0 { return .writable }
            if requests[1].revents != 0 { return .signal("") }
            return .timeout
        }
    }

    /// The signal that came since ``watch()`` and was not asked for yet, if any.
    static func pending() -> CInt? {
        var byte: UInt8 = 0
        return Glibc.read(pipe.read, &byte, 1) == 1 ? CInt(byte) : nil
    }

    /// Ends the process as the signal would have: whoever started us sees by what.
    static func die(of number: CInt) -> Never {
        signal(number, SIG_DFL)
        raise(number)
        Glibc.exit(128 + number)
    }

    private static func name(_ number: CInt) -> String {
        switch number {
        case SIGINT: "sigint"
        case SIGTERM: "sigterm"
        default: "sighup"
        }
    }
}
