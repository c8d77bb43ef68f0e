#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

extension HubServerError {
    /// A file that could not be read, with the system's reason, which is asked for anew: who reads whole files hears of it only in part.
    static func unreadable(_ path: String) -> HubServerError { HubServerError(.unreadable, "\(path) cannot be read: \(reason(path))") }

    private static func reason(_ path: String) -> String {
        // Nobody need write into it, if it is a pipe.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return String(cString: strerror(errno)) }
        defer { close(descriptor) }
        var byte: UInt8 = 0
        return read(descriptor, &byte, 1) < 0 ? String(cString: strerror(errno)) : "try again"
    }
}
