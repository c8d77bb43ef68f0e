#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The order of a database's keys.
enum KeyOrder {
    case bytes
    /// The free list's: transaction ids in the machine's byte order.
    case integer

    func isAscending(_ lhs: UnsafeRawBufferPointer, _ rhs: UnsafeRawBufferPointer) -> Bool {
        if case .integer = self { return lhs.loadUnaligned(as: UInt64.self) < rhs.loadUnaligned(as: UInt64.self) }
        let order = memcmp(lhs.baseAddress!, rhs.baseAddress!, min(lhs.count, rhs.count))
        return order < 0 || (order == 0 && lhs.count < rhs.count)
    }
}
