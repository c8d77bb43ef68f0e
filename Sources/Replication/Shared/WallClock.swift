#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

enum WallClock {
    /// Since 1970.
    static var milliseconds: UInt64 {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return UInt64(max(now.tv_sec, 0)) * 1000 + UInt64(now.tv_nsec) / 1_000_000
    }
}
