internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The journal in files of this machine: four preallocated files, filled in turn and used again when the archive holds their events.
final class FileJournal: Journal {
    static let fileCount = 4
    /// Files grow by so much at a time, written with zeros, so that a sync has no metadata to write; for what is large see `largeBytes`. Least where frames
    /// are small: somebody waits while it is written, so it should not take longer than a commit does.
    private static func growthBytes(for need: Int) -> Int {
        var bytes = 64 << 10
        while bytes < 16 * need, bytes < 1 << 20 { bytes *= 2 }
        return bytes
    }

    private struct Slot {
        var file: File?
        var bytes = 0
        /// Of the file's bytes, those that were written, if only with zeros. Of a file that was there at opening, all are taken for written: behind a large
        /// frame some may not be, whose syncs then write metadata too.
        var written = 0
        var generation: UInt64 = 0
        /// The last frame in it. Frames count, not positions: some hold no events, but refusals that must not be lost.
        var lastFrame: UInt64 = 0
    }

    private struct State {
        var slots: [Slot]
        var current = 0
        var offset = 0
        var generation: UInt64
        var frame: UInt64
        var checksum: UInt64
        /// The last frame whose write has returned: only that much does a sync vouch for.
        var writtenFrame: UInt64
        var syncedFrame: UInt64
        var writtenPosition: Position
        var archivedFrame: UInt64
        /// A sync failed: the kernel has dropped what it could not write, and the next sync would not say so.
        var failure: SystemError?
        var isOpen: Bool  // whether the current generation has begun
    }

    private let directory: String
    private let store: StoreID
    private let slotBytes: Int
    private let state: Monitor<State>

    /// For what may take so much, room is only put aside: its sync writes metadata too, which from frames of some 128 KiB on costs less than writing as many
    /// zeros and syncing them before; and of what a commit may take at most, its frame takes an eighth or more. In small files either is soon over.
    private var largeBytes: Int { min(1 << 20, slotBytes / 8) }

    /// No file of a journal is larger: twice what one request may take. They are read as a whole, so that a forged size must not count.
    static let fileBytesMax = 2 << 30

    static func path(_ directory: String, _ slot: Int) -> String { "\(directory)/journal.\(slot)" }

    /// Goes on behind what was recovered: a new generation begins with the first append.
    init(directory: String, store: StoreID, bytesMax: Int, recovered: RecoveredJournal, archivedFrame: UInt64) throws {
        self.directory = directory
        self.store = store
        slotBytes = min(max(bytesMax / Self.fileCount, 1 << 16), Self.fileBytesMax / 2)
        var slots = [Slot](repeating: Slot(), count: Self.fileCount)
        for (index, slot) in recovered.slots.enumerated() where slot.exists {
            let file = try File(Self.path(directory, index), O_RDWR)
            let bytes = try file.size
            slots[index] = Slot(file: file, bytes: bytes, written: bytes, generation: slot.generation, lastFrame: slot.lastFrame)
        }
        // The kernel drops what it failed to write once it has said so: bytes that were read may be nowhere but in memory. Rewrite, then sync.
        for piece in recovered.unsynced {
            guard let file = slots[piece.slot].file else { continue }
            try piece.bytes.withUnsafeBytes { try file.write($0, at: piece.offset) }
            try file.syncAll()
        }
        state = Monitor(
            State(
                slots: slots, generation: recovered.lastGeneration, frame: recovered.lastFrame, checksum: recovered.lastChecksum,
                writtenFrame: recovered.lastFrame, syncedFrame: recovered.lastFrame, writtenPosition: recovered.lastPosition,
                archivedFrame: archivedFrame, isOpen: false))
    }

    var lastFrame: UInt64 { state.withLock { $0.frame } }

    var syncedFrame: UInt64 { state.withLock { $0.syncedFrame } }

    var bytes: Int { state.withLock { $0.slots.reduce(0) { $0 + $1.bytes } } }

    func reserve(_ wanted: Int) throws -> JournalRoom {
        try state.withLock { state in
            if let failure = state.failure { throw failure }
            let need = wanted + Frame.headerBytes + 8
            if !state.isOpen || (state.offset > 0 && state.offset + need > slotBytes) {
                guard let next = Self.free(state) else { return .full }
                if state.isOpen, state.syncedFrame < state.frame {
                    // Reading relies on it: behind a file that another follows there is no torn tail.
                    do throws(SystemError) {
                        try state.slots[state.current].file!.sync()
                    } catch {
                        state.failure = error
                        throw error
                    }
                    state.syncedFrame = state.frame
                }
                // First its room: where the disk has none, what is smaller still goes into the file at hand.
                try open(next, &state)
                try extend(next, to: need, for: need, &state)
                enter(next, &state)
            } else {
                try extend(state.current, to: state.offset + need, for: need, &state)
            }
            return .ready
        }
    }

    /// The free file that was filled longest ago: so the generations on disk stay a range.
    private static func free(_ state: borrowing State) -> Int? {
        var best: Int?
        for index in state.slots.indices where !(state.isOpen && index == state.current) {
            guard state.slots[index].lastFrame <= state.archivedFrame else { continue }
            if best == nil || state.slots[index].generation < state.slots[best!].generation { best = index }
        }
        return best
    }

    private func begin(_ slot: Int, _ state: inout State) throws {
        try open(slot, &state)
        enter(slot, &state)
    }

    private func open(_ slot: Int, _ state: inout State) throws {
        if state.slots[slot].file == nil {
            let path = Self.path(directory, slot)
            state.slots[slot].file = try File(path, O_RDWR | O_CREAT)
            state.slots[slot].bytes = try state.slots[slot].file!.size
            state.slots[slot].written = state.slots[slot].bytes
            try Directory.sync(directory)
        }
        if state.slots[slot].bytes > slotBytes {
            try state.slots[slot].file!.truncate(to: slotBytes)
            state.slots[slot].bytes = slotBytes
            state.slots[slot].written = min(state.slots[slot].written, slotBytes)
        }
    }

    private func enter(_ slot: Int, _ state: inout State) {
        state.generation = Frame.Generation.after(state.generation)
        state.slots[slot].generation = state.generation
        state.slots[slot].lastFrame = 0
        state.current = slot
        state.offset = 0
        state.isOpen = true
    }

    /// Makes room up to `end` for what takes at most `need` bytes of it.
    private func extend(_ slot: Int, to end: Int, for need: Int, _ state: inout State) throws {
        func rounded(_ step: Int) -> Int { (end + step - 1) / step * step }
        let least = rounded(4096)
        let ample = max(least, min(rounded(Self.growthBytes(for: need)), slotBytes))
        #if canImport(Glibc)
            if need >= largeBytes {
                if end > state.slots[slot].bytes { try allocate(slot, to: least, &state) }
                return
            }
        #endif
        guard end > state.slots[slot].written else { return }
        do {
            try grow(slot, to: ample, &state)
        } catch let error as SystemError where error.isNoSpace && least < ample {
            // A disk that is nearly full may have room for this.
            try grow(slot, to: least, &state)
        }
    }

    #if canImport(Glibc)
        private func allocate(_ slot: Int, to wanted: Int, _ state: inout State) throws {
            let have = state.slots[slot].bytes
            do throws(SystemError) {
                try state.slots[slot].file!.allocate(have..<wanted)
            } catch {
                try? state.slots[slot].file!.truncate(to: have)
                throw error
            }
            state.slots[slot].bytes = wanted
        }
    #endif

    private func grow(_ slot: Int, to wanted: Int, _ state: inout State) throws {
        let have = state.slots[slot].bytes
        do {
            var offset = state.slots[slot].written
            let (file, zeros) = (state.slots[slot].file!, [UInt8](repeating: 0, count: Self.pageBytes))
            while offset < wanted {
                let count = min(Self.pageBytes - offset % Self.pageBytes, wanted - offset)
                try zeros.withUnsafeBytes { try file.write(UnsafeRawBufferPointer(rebasing: $0[..<count]), at: offset) }
                offset += count
            }
        } catch {
            try? state.slots[slot].file!.truncate(to: have)
            throw error
        }
        do throws(SystemError) {
            try state.slots[slot].file!.syncAll()
        } catch {
            try? state.slots[slot].file!.truncate(to: have)
            if state.syncedFrame < state.frame { state.failure = error }
            throw error
        }
        state.slots[slot].bytes = max(have, wanted)
        state.slots[slot].written = wanted
    }

    private static let pageBytes = 4096

    /// A page at a time, as zeros are too: what is written in one piece is cached in one piece, and each small frame would then write all of it again.
    private static func writePages(_ bytes: UnsafeRawBufferPointer, to file: File, at offset: Int) throws(SystemError) {
        var start = 0
        while start < bytes.count {
            let count = min(pageBytes - (offset + start) % pageBytes, bytes.count - start)
            try file.write(UnsafeRawBufferPointer(rebasing: bytes[start..<start + count]), at: offset + start)
            start += count
        }
    }

    func append(_ frame: inout ByteBuffer, firstPosition: Position, events: Int, isSynced: Bool) throws {
        try append(&frame, firstPosition: firstPosition, events: events, isSynced: isSynced, purpose: .events)
    }

    private func append(_ frame: inout ByteBuffer, firstPosition: Position, events: Int, isSynced: Bool, purpose: Frame.Purpose) throws {
        // The lock is let go while the disk works: syncs and recycling of other threads do not wait for it.
        let (file, offset, number, isFresh) = try state.withLock { state -> (File, Int, UInt64, Bool) in
            if let failure = state.failure { throw failure }
            let header = Frame.Header(
                payloadBytes: 0, checksum: 0, store: store, generation: state.generation, number: state.frame + 1, syncedThrough: state.syncedFrame,
                previousChecksum: state.checksum, firstPosition: firstPosition, events: events, purpose: purpose)
            state.checksum = Frame.seal(&frame, header)
            state.frame += 1
            let offset = state.offset
            state.offset += frame.count
            let slot = state.current
            state.slots[slot].lastFrame = state.frame
            let isFresh = state.offset > state.slots[slot].written
            // Never less than the frame: zeros are written from there on.
            if isFresh { state.slots[slot].written = (state.offset + 4095) / 4096 * 4096 }
            return (state.slots[slot].file!, offset, state.frame, isFresh)
        }
        do throws(SystemError) {
            if isFresh { try Self.writePages(frame.bytes, to: file, at: offset) } else { try file.write(frame.bytes, at: offset) }
        } catch {
            // Its number is taken: a frame behind it would follow nothing.
            state.withLock { $0.failure = error }
            throw error
        }
        // Not before: a sync of another thread may have begun, and would vouch for what was not there yet.
        state.withLock { state in
            state.writtenFrame = number
            if events > 0 { state.writtenPosition = firstPosition + Position(events) - 1 }
        }
        if isSynced { _ = try sync() }
    }

    func sync() throws -> Position {
        let (file, frame, position) = try state.withLock { state in
            if let failure = state.failure { throw failure }
            return (state.isOpen ? state.slots[state.current].file : nil, state.writtenFrame, state.writtenPosition)
        }
        guard let file else { return position }
        do throws(SystemError) {
            try file.sync()
        } catch {
            state.withLock { $0.failure = error }
            throw error
        }
        state.withLock { $0.syncedFrame = max($0.syncedFrame, frame) }
        return position
    }

    func recycle(throughFrame number: UInt64) {
        state.withLock { $0.archivedFrame = max($0.archivedFrame, number) }
    }

    /// Closes the files as they are; whatever is asked of it afterwards fails.
    func abandon() {
        state.withLock { state in
            state.failure = SystemError(call: "write", path: directory, number: EBADF)
            state.slots = []
            state.isOpen = false
        }
    }

    /// The archive took in events past the journal: the next frame begins behind them.
    func skip(through position: Position) {
        state.withLock { $0.writtenPosition = max($0.writtenPosition, position) }
    }

    func close() throws {
        try finishOrFail(.close)
    }

    func wipe() throws {
        try finishOrFail(.mark)
    }

    /// Left half-way it takes no more frames: an opening sees what there is.
    private func finishOrFail(_ purpose: Frame.Purpose) throws {
        do {
            try finish(purpose)
        } catch let error as SystemError {
            state.withLock { $0.failure = error }
            throw error
        }
    }

    /// Writes a last frame into a file of its own, then removes all others.
    private func finish(_ purpose: Frame.Purpose) throws {
        let position = state.withLock { $0.writtenPosition }
        try state.withLock { state in
            if let failure = state.failure { throw failure }
            if state.isOpen, state.syncedFrame < state.frame {
                try state.slots[state.current].file!.sync()
                state.syncedFrame = state.frame
            }
            guard let next = Self.free(state) else {
                throw EventLogError(.diskFull, "\(directory): the journal cannot be closed before the archive holds its events")
            }
            // The file's old bytes go first: a new name, so that a crash leaves either.
            if let file = state.slots[next].file {
                try overwrite(file, state.slots[next].bytes)
                try file.truncate(to: 0)
                try file.syncAll()
                (state.slots[next].bytes, state.slots[next].written) = (0, 0)
            }
            try begin(next, &state)
        }
        var frame = ByteBuffer(capacity: 128)
        for _ in 0..<Frame.headerBytes { frame.put(byte: 0) }
        try append(&frame, firstPosition: position + 1, events: 0, isSynced: false, purpose: purpose)
        try state.withLock { state in
            try state.slots[state.current].file!.syncAll()
            (state.slots[state.current].bytes, state.slots[state.current].written) = (frame.count, frame.count)
            state.syncedFrame = state.frame
            for index in state.slots.indices where index != state.current {
                guard let file = state.slots[index].file else { continue }
                if purpose == .mark { try overwrite(file, state.slots[index].bytes) }
                state.slots[index] = Slot()
                try Directory.remove(Self.path(directory, index))
            }
            try Directory.sync(directory)
            if purpose == .mark { state.isOpen = false }
        }
    }

    private func overwrite(_ file: File, _ bytes: Int) throws(SystemError) {
        let zeros = [UInt8](repeating: 0, count: 1 << 16)
        var offset = 0
        while offset < bytes {
            let count = min(zeros.count, bytes - offset)
            var failure: SystemError?
            zeros.withUnsafeBytes { buffer in
                do throws(SystemError) { try file.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: offset) } catch { failure = error }
            }
            if let failure { throw failure }
            offset += count
        }
        if bytes > 0 { try file.syncAll() }
    }
}
