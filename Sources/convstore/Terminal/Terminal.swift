import Glibc

/// What is at the other end of our descriptors.
enum Terminal {
    static let isOutput = isatty(STDOUT_FILENO) == 1
    static let isError = isatty(STDERR_FILENO) == 1

    /// Colours only on a terminal, and not if the user wants none (no-color.org).
    static let hasColours = isOutput && !isSet("NO_COLOR") && getenv("TERM").map { String(cString: $0) } != "dumb"

    /// Columns of the terminal; 80 if there is none.
    static var columns: Int {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 || ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0
        else { return 80 }
        return Int(size.ws_col)
    }

    /// Columns to lay text out for: what is piped elsewhere has 80.
    static var width: Int { isOutput ? min(max(columns, 20), 200) : 80 }

    /// `convstore: what, where, what to do` on standard error, harmless.
    static func complain(_ message: String) {
        writeError("convstore: " + Sanitizer.harmless(message, keepsNewlines: true) + "\n")
    }

    /// Puts something in the place of descriptors that were closed when we were started: else a store's file would get their numbers, and be written
    /// to as standard output or error. Writing to what stands there fails, as writing to a closed one does.
    static func occupyStandardDescriptors() {
        for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(descriptor, F_GETFD) < 0 && errno == EBADF {
            // The lowest free number is given out, and those below are taken.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    static func writeError(_ text: String) {
        Array(text.utf8).withUnsafeBytes { try? writeAll($0, to: STDERR_FILENO, "standard error") }
    }

    private static func isSet(_ name: String) -> Bool { getenv(name).map { $0[0] != 0 } ?? false }
}

/// How text looks on a terminal that shows colours.
enum Style: String {
    case bold = "1"
    case dim = "2"
    case red = "31"
    case green = "32"
    case cyan = "36"
    case badge = "1;7;32"

    func callAsFunction(_ text: String) -> String { Terminal.hasColours && !text.isEmpty ? "\u{1B}[\(rawValue)m\(text)\u{1B}[0m" : text }
}
