#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What the journal's files say: all frames up to the end of the chain, and whether that end can be trusted.
struct RecoveredJournal {
    struct Slot {
        var exists = false
        var generation: UInt64 = 0
        var lastFrame: UInt64 = 0
    }

    /// Bytes that were read but are not known to be synced.
    struct Piece {
        var slot: Int
        var offset: Int
        var bytes: [UInt8]
    }

    var slots = [Slot](repeating: Slot(), count: FileJournal.fileCount)
    /// The frames that hold events beyond the archive.
    var frames: [TailFrame] = []
    var lastGeneration: UInt64 = 0
    var lastFrame: UInt64 = 0
    var lastChecksum: UInt64 = 0
    var lastPosition: Position = 0
    var unsynced: [Piece] = []
    var isClosed = false
    /// Bytes behind the last good frame that are no frame: a torn write, cut.
    var tornBytes = 0

    /// Reads the files of a store whose archive holds everything up to `archivedPosition`, which lies in frame `archivedFrame` or before.
    ///
    /// Throws `.damaged` where acknowledged events must have been (docs/FORMAT.md, "Where the journal ends").
    init(directory: String, store: StoreID, archivedPosition: Position, archivedFrame: UInt64) throws {
        lastPosition = archivedPosition
        var files: [ReadFile] = []
        var headless: [(path: String, bytes: [UInt8])] = []
        for slot in 0..<FileJournal.fileCount {
            let path = FileJournal.path(directory, slot)
            guard let bytes = try Self.content(path) else { continue }
            slots[slot].exists = true
            if let first = bytes.withUnsafeBytes({ Frame.read($0, at: 0, store: store) }) {
                files.append(ReadFile(slot: slot, path: path, bytes: bytes, first: first))
            } else {
                headless.append((path, bytes))
            }
        }
        files.sort { $0.first.generation < $1.first.generation }
        for (order, file) in files.enumerated() {
            let first = file.first
            let follows = order == 0 ? first.number <= archivedFrame + 1 : first.number == lastFrame + 1 && first.previousChecksum == lastChecksum
            // A gap before frames that are archived does not matter; one within what only the journal holds does.
            guard follows || first.number <= archivedFrame + 1 && first.firstPosition <= archivedPosition + 1 else {
                throw Self.damage(file.path, "frame \(first.number) follows frame \(lastFrame): frames between them are missing")
            }
            try file.bytes.withUnsafeBytes { bytes in
                let chain = try follow(file, bytes, store, archivedFrame)
                if order == files.count - 1 { try checkEnd(chain, file, bytes, store) }
            }
        }
        // A file whose first frame is bad: torn by a crash, unless a frame behind it was written when that one was known synced.
        for file in headless {
            let later = file.bytes.withUnsafeBytes { [lastGeneration] bytes in
                Self.laterFrames(bytes, store: store, after: archivedFrame) { Frame.Generation.isNext($0, after: lastGeneration) }
            }
            guard let later, later.syncedThrough > lastFrame else { continue }
            throw Self.damage(file.path, "its first frame, \(lastFrame + 1), is damaged, but was known to be synced")
        }
        guard lastFrame >= archivedFrame else {
            throw EventLogError(
                .damaged,
                "\(directory): the journal ends at frame \(lastFrame), but the archive knows of frame \(archivedFrame): journal files are missing or cut. "
                    + "What the archive holds can be had with `convstore export --salvage`")
        }
    }

    /// A file that begins with a whole frame.
    private struct ReadFile {
        var slot: Int
        var path: String
        var bytes: [UInt8]
        var first: Frame.Header
    }

    /// The frames of one file that follow each other.
    private struct Chain {
        var frames: [(offset: Int, bytes: Int, number: UInt64)] = []
        var end = 0
        /// The last frame that one of them knows synced.
        var syncedThrough: UInt64 = 0
    }

    /// `nil` if there is no such file.
    private static func content(_ path: String) throws -> [UInt8]? {
        do {
            let file = try File(path, O_RDONLY)
            defer { file.dropCache() }
            let size = try file.size
            guard size <= FileJournal.fileBytesMax else { throw damage(path, "it has \(size) bytes, more than any journal's file") }
            return try file.read(size, at: 0)
        } catch let error as SystemError {
            if error.isAbsent { return nil }
            throw error.typed
        }
    }

    /// Takes in the frames of a file, as far as each follows the one before.
    private mutating func follow(_ file: ReadFile, _ bytes: UnsafeRawBufferPointer, _ store: StoreID, _ archivedFrame: UInt64) throws -> Chain {
        slots[file.slot].generation = file.first.generation
        lastGeneration = max(lastGeneration, file.first.generation)
        var chain = Chain()
        while let header = Frame.read(bytes, at: chain.end, store: store), header.generation == file.first.generation,
            chain.end == 0 || (header.number == lastFrame + 1 && header.previousChecksum == lastChecksum)
        {
            lastFrame = header.number
            lastChecksum = header.checksum
            isClosed = header.purpose == .close
            slots[file.slot].lastFrame = header.number
            if header.number > archivedFrame { try take(header, bytes, at: chain.end, file.path) }
            chain.syncedThrough = max(chain.syncedThrough, header.syncedThrough)
            chain.frames.append((chain.end, header.frameBytes, header.number))
            chain.end += header.frameBytes
        }
        return chain
    }

    /// A frame with events beyond the archive.
    private mutating func take(_ header: Frame.Header, _ bytes: UnsafeRawBufferPointer, at offset: Int, _ path: String) throws {
        guard header.firstPosition == lastPosition + 1 else {
            throw Self.damage(path, "frame \(header.number) begins at position \(header.firstPosition), but \(lastPosition + 1) was expected")
        }
        if header.payloadBytes > 0 {
            let start = offset + Frame.headerBytes
            let payload = UnsafeRawBufferPointer(rebasing: bytes[start..<start + header.payloadBytes])
            let frame = try? TailFrame(payload, number: header.number, firstPosition: header.firstPosition, events: header.events)
            guard let frame else { throw Self.damage(path, "frame \(header.number) cannot be read, though its checksum holds") }
            frames.append(frame)
        }
        lastPosition = header.firstPosition + Position(header.events) - 1
    }

    /// Whether the last file's chain can have ended where it does, and what of it may not be synced.
    private mutating func checkEnd(_ chain: Chain, _ file: ReadFile, _ bytes: UnsafeRawBufferPointer, _ store: StoreID) throws {
        let later = Self.laterFrames(bytes, from: chain.end, store: store, after: lastFrame) { $0 == file.first.generation }
        if let later, later.syncedThrough > lastFrame {
            throw Self.damage(
                file.path, "frame \(lastFrame + 1) at byte \(chain.end) is damaged: frame \(later.number) behind it says that it was synced")
        }
        if let torn = bytes.firstNonzero(from: chain.end), !isClosed || torn < bytes.count { tornBytes = bytes.count - chain.end }
        if isClosed, chain.end != bytes.count { throw Self.damage(file.path, "\(bytes.count - chain.end) bytes follow the closing frame") }
        for frame in chain.frames where frame.number > chain.syncedThrough {
            unsynced.append(Piece(slot: file.slot, offset: frame.offset, bytes: Array(bytes[frame.offset..<frame.offset + frame.bytes])))
        }
    }

    /// What the whole frames of this store behind a bad one say: the first one's number, and the furthest frame that any knows synced.
    /// Frames start at multiples of eight.
    private static func laterFrames(
        _ bytes: UnsafeRawBufferPointer, from start: Int = 0, store: StoreID, after number: UInt64, ofGeneration isRight: (UInt64) -> Bool
    ) -> (number: UInt64, syncedThrough: UInt64)? {
        var found: (number: UInt64, syncedThrough: UInt64)?
        var offset = (start + 7) & ~7
        while offset + Frame.headerBytes <= bytes.count {
            if bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self).littleEndian == Frame.magic,
                let header = Frame.read(bytes, at: offset, store: store), header.number > number, isRight(header.generation)
            {
                found = (found?.number ?? header.number, max(found?.syncedThrough ?? 0, header.syncedThrough))
                offset += header.frameBytes
            } else {
                offset += 8
            }
        }
        return found
    }

    private static func damage(_ path: String, _ what: String) -> EventLogError {
        EventLogError(
            .damaged, "\(path): \(what). Acknowledged events are unreadable; run `convstore verify`, and `convstore export --salvage` for what is sound")
    }
}

extension UnsafeRawBufferPointer {
    /// The first byte from one on that is not zero; most of a journal's file is zeros.
    fileprivate func firstNonzero(from start: Int) -> Int? {
        var offset = start
        while offset + 8 <= count, loadUnaligned(fromByteOffset: offset, as: UInt64.self) == 0 { offset += 8 }
        return self[offset...].firstIndex { $0 != 0 }
    }
}
