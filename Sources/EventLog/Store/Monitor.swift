#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A lock with a condition, for threads that wait on one another.
///
/// Not the standard library's `Mutex`: the thread sanitizer (Swift 6.3.1) does not see its futex, and reports whatever it guards.
///
/// `@unchecked Sendable`: the value is touched only with the lock held.
package final class Monitor<Value: ~Copyable>: @unchecked Sendable {
    /// The value, and a byte: of one without a size the runtime says that it lies where the object's class is told, and the thread sanitizer takes an access to
    /// it for one to that.
    private struct Held: ~Copyable {
        var value: Value
        private let end: UInt8 = 0

        init(_ value: consuming Value) { self.value = value }
    }

    private var held: Held
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    package init(_ value: consuming sending Value) {
        held = Held(value)
        pthread_mutex_init(mutex, nil)
        pthread_cond_init(condition, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        pthread_cond_destroy(condition)
        mutex.deallocate()
        condition.deallocate()
    }

    /// Runs the closure with the lock.
    package func withLock<R>(_ body: (inout Value) throws -> R) rethrows -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&held.value)
    }

    /// Waits while the condition holds, then runs the closure, with the lock.
    ///
    /// The condition is asked anew after each waking; no access to the value lasts over the waiting, which others change meanwhile.
    package func withLock<R>(waitingWhile condition: (borrowing Value) -> Bool, _ body: (inout Value) throws -> R) rethrows -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while condition(held.value) { pthread_cond_wait(self.condition, mutex) }
        return try body(&held.value)
    }

    /// The same, but waits at most so long.
    package func withLock<R>(waitingWhile condition: (borrowing Value) -> Bool, atMostMilliseconds limit: Int, _ body: (inout Value) throws -> R) rethrows -> R
    {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        let nanoseconds = now.tv_nsec + (limit % 1000) * 1_000_000
        var until = timespec(tv_sec: now.tv_sec + limit / 1000 + nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000)
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while condition(held.value), pthread_cond_timedwait(self.condition, mutex, &until) == 0 {}
        return try body(&held.value)
    }

    package func wakeAll() { pthread_cond_broadcast(condition) }
}

/// A thread of our own: commits wait for the disk, which Swift's shared threads must not.
package enum WorkerThread {
    package static let processors = max(sysconf(CInt(_SC_NPROCESSORS_ONLN)), 1)

    private final class Box {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    package static func start(_ body: @escaping @Sendable () -> Void) {
        let box = Unmanaged.passRetained(Box(body))
        #if canImport(Glibc)
            var thread = pthread_t()
            let result = pthread_create(
                &thread, nil,
                { raw in
                    Unmanaged<Box>.fromOpaque(raw!).takeRetainedValue().body()
                    return nil
                }, box.toOpaque())
        #else
            var thread: pthread_t?
            let result = pthread_create(
                &thread, nil,
                { raw in
                    Unmanaged<Box>.fromOpaque(raw).takeRetainedValue().body()
                    return nil
                }, box.toOpaque())
        #endif
        precondition(result == 0, "the system has no thread left for the store")
        #if canImport(Glibc)
            pthread_detach(thread)
        #else
            pthread_detach(thread!)
        #endif
    }
}

/// Time since some moment, which no setting of clocks changes.
enum UptimeClock {
    private static let start = ContinuousClock.now
    static func now() -> Duration { ContinuousClock.now - start }
}

/// The wall clock.
package enum WallClock {
    package static func milliseconds() -> UInt64 {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return UInt64(now.tv_sec) * 1000 + UInt64(now.tv_nsec) / 1_000_000
    }
}
