#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Seconds since 1970.
@Sendable func systemSeconds() -> Double {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Double(now.tv_sec) + Double(now.tv_nsec) / 1e9
}
