#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// How many files and sockets this process may have open.
///
/// In a file of its own, without NIO: of the same C types that come from two modules, one file must see one (`lenient` in Package.swift).
enum DescriptorLimit {
    static var now: Int {
        var limit = rlimit()
        #if canImport(Glibc)
            let isKnown = getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
        #else
            let isKnown = getrlimit(RLIMIT_NOFILE, &limit) == 0
        #endif
        return isKnown ? Int(clamping: limit.rlim_cur) : .max
    }
}
