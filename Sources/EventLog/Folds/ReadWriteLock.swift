#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Many readers or one writer; a writer that waits goes before readers that come later.
///
/// Readers on different cores would pass the lock's own bytes to and fro, which costs more than a short read: so there are several locks, of which a
/// reader takes one and a writer all (a "big-reader lock").
///
/// `@unchecked Sendable`: nothing but the system's locks lies in its memory.
package final class ReadWriteLock: @unchecked Sendable {
    private static let count = 16
    /// Two cache lines apart, as processors fetch them in pairs.
    private static let stride = max(256, MemoryLayout<pthread_rwlock_t>.stride)
    private let memory = UnsafeMutableRawPointer.allocate(byteCount: count * stride, alignment: 256)

    package init() {
        for index in 0..<Self.count {
            let lock = (memory + index * Self.stride).bindMemory(to: pthread_rwlock_t.self, capacity: 1)
            #if canImport(Glibc)
                var attributes = pthread_rwlockattr_t()
                pthread_rwlockattr_init(&attributes)
                // glibc lets readers pass waiting writers by default: a busy screen would hold up every commit.
                pthread_rwlockattr_setkind_np(&attributes, CInt(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP))
                pthread_rwlock_init(lock, &attributes)
                pthread_rwlockattr_destroy(&attributes)
            #else
                pthread_rwlock_init(lock, nil)
            #endif
        }
    }

    deinit {
        for index in 0..<Self.count { pthread_rwlock_destroy(lock(index)) }
        memory.deallocate()
    }

    private func lock(_ index: Int) -> UnsafeMutablePointer<pthread_rwlock_t> {
        (memory + index * Self.stride).assumingMemoryBound(to: pthread_rwlock_t.self)
    }

    /// The calling thread's lock: the same as long as it holds it.
    private var own: UnsafeMutablePointer<pthread_rwlock_t> {
        #if canImport(Glibc)
            let thread = UInt64(pthread_self())
        #else
            let thread = UInt64(UInt(bitPattern: pthread_self()))
        #endif
        return lock(Int(truncatingIfNeeded: (thread &* 0x9E37_79B9_7F4A_7C15) >> 60))
    }

    /// The lock that the thread holds for reading and may ask for again.
    private static let held: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// As ``read(_:)``, for a closure that is not ours and may read again: a second lock would wait for a writer that waits for the first.
    package func readNesting<R>(_ body: () throws -> R) rethrows -> R {
        try read {
            let outer = pthread_getspecific(Self.held)
            pthread_setspecific(Self.held, memory)
            defer { pthread_setspecific(Self.held, outer) }
            return try body()
        }
    }

    /// Whether the calling thread is in ``readNesting(_:)``.
    package var isHeld: Bool { pthread_getspecific(Self.held) == memory }

    package func read<R>(_ body: () throws -> R) rethrows -> R {
        if isHeld { return try body() }
        let lock = own
        pthread_rwlock_rdlock(lock)
        defer { pthread_rwlock_unlock(lock) }
        return try body()
    }

    package func write<R>(_ body: () throws -> R) rethrows -> R {
        for index in 0..<Self.count { pthread_rwlock_wrlock(lock(index)) }
        defer { for index in 0..<Self.count { pthread_rwlock_unlock(lock(index)) } }
        return try body()
    }
}
