/// The memory of large frames that the archive took in, for the next ones: what an allocator gives back to the system is fetched from it again page by page,
/// which took a twentieth of a large commit (`perf`, 4096 events).
final class FrameMemory: Sendable {
    /// Smaller ones come from the allocator, which keeps them itself.
    private static let blockBytesMin = 1 << 16
    private let bytesMax: Int

    /// `@unchecked Sendable`: bytes that nobody looks at.
    private struct State: @unchecked Sendable {
        var free: [UnsafeMutableRawBufferPointer] = []
        var freeBytes = 0
        /// Asked for since it was last trimmed.
        var askedBytes = 0

        mutating func shrink(to bytes: Int) {
            while freeBytes > bytes, let block = free.popLast() {
                freeBytes -= block.count
                block.deallocate()
            }
        }
    }

    private let state = Monitor(State())

    /// - Parameter bytesMax: so much is kept at most.
    init(bytesMax: Int) { self.bytesMax = bytesMax }

    deinit { state.withLock { $0.shrink(to: 0) } }

    var freeBytes: Int { state.withLock { $0.freeBytes } }

    /// So many bytes or more, to be given back.
    func take(_ count: Int) -> UnsafeMutableRawBufferPointer {
        guard count >= Self.blockBytesMin else { return .allocate(byteCount: max(count, 1), alignment: 16) }
        // Frames of commits that are alike differ by little.
        let rounded = (count + Self.blockBytesMin - 1) / Self.blockBytesMin * Self.blockBytesMin
        return state.withLock { state in
            state.askedBytes += rounded
            guard let place = state.free.lastIndex(where: { rounded...2 * rounded ~= $0.count }) else {
                return .allocate(byteCount: rounded, alignment: 16)
            }
            state.freeBytes -= state.free[place].count
            return state.free.remove(at: place)
        }
    }

    func giveBack(_ block: UnsafeMutableRawBufferPointer) {
        let isKept =
            block.count >= Self.blockBytesMin
            && state.withLock { state in
                guard state.freeBytes + block.count <= bytesMax else { return false }
                state.free.append(block)
                state.freeBytes += block.count
                return true
            }
        if !isKept { block.deallocate() }
    }

    /// Keeps no more than what was asked for since the last time. Asked at each flush, and every ten seconds of a flush's thread that has nothing to do.
    func trim() {
        state.withLock { state in
            state.shrink(to: state.askedBytes)
            state.askedBytes = 0
        }
    }
}
