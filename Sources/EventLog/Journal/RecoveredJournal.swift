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
        var files: [(slot: Int, bytes: [UInt8], first: Frame.Header)] = []
        var headless: [(path: String, syncedThrough: UInt64)] = []
        for slot in 0..<FileJournal.fileCount {
            let path = FileJournal.path(directory, slot)
            let file: File
            do {
                file = try File(path, O_RDONLY)
            } catch {
                if error.isAbsent { continue }
                throw error.typed
            }
            slots[slot].exists = true
            let bytes: [UInt8]
            do {
                let size = try file.size
                guard size <= FileJournal.fileBytesMax else { throw Self.damage(path, "it has \(size) bytes, more than any journal's file") }
                bytes = try file.read(size, at: 0)
            } catch let error as SystemError {
                throw error.typed
            }
            file.dropCache()
            if let first = bytes.withUnsafeBytes({ Frame.read($0, at: 0, store: store) }) {
                files.append((slot, bytes, first))
            } else if let later = bytes.withUnsafeBytes({ Self.laterFrames($0, from: 0, store: store, after: archivedFrame, generation: nil) }) {
                headless.append((path, later.syncedThrough))
            }
        }
        files.sort { $0.first.generation < $1.first.generation }

        var isFirst = true
        for (order, file) in files.enumerated() {
            let path = FileJournal.path(directory, file.slot)
            let isLast = order == files.count - 1
            if isFirst ? file.first.number > archivedFrame + 1 : file.first.number != lastFrame + 1 || file.first.previousChecksum != lastChecksum {
                // A gap before frames that are archived does not matter; one within what only the journal holds does.
                guard file.first.number <= archivedFrame + 1, file.first.firstPosition <= archivedPosition + 1 else {
                    throw Self.damage(path, "frame \(file.first.number) follows frame \(lastFrame): frames between them are missing")
                }
            }
            slots[file.slot].generation = file.first.generation
            lastGeneration = max(lastGeneration, file.first.generation)
            var offset = 0
            var mine: [(offset: Int, bytes: Int, number: UInt64)] = []
            var synced: UInt64 = 0
            try file.bytes.withUnsafeBytes { bytes in
                while let header = Frame.read(bytes, at: offset, store: store), header.generation == file.first.generation,
                    offset == 0 || (header.number == lastFrame + 1 && header.previousChecksum == lastChecksum)
                {
                    lastFrame = header.number
                    lastChecksum = header.checksum
                    isClosed = header.purpose == .close
                    synced = max(synced, header.syncedThrough)
                    mine.append((offset, header.frameBytes, header.number))
                    let last = header.firstPosition + Position(header.events) - 1
                    slots[file.slot].lastFrame = header.number
                    if header.number > archivedFrame {
                        guard header.firstPosition == lastPosition + 1 else {
                            throw Self.damage(path, "frame \(header.number) begins at position \(header.firstPosition), but \(lastPosition + 1) was expected")
                        }
                        let start = offset + Frame.headerBytes
                        if header.payloadBytes > 0 {
                            let payload = UnsafeRawBufferPointer(rebasing: bytes[start..<start + header.payloadBytes])
                            let frame = try? TailFrame(payload, number: header.number, firstPosition: header.firstPosition, events: header.events)
                            guard let frame else { throw Self.damage(path, "frame \(header.number) cannot be read, though its checksum holds") }
                            frames.append(frame)
                        }
                        lastPosition = last
                    }
                    offset += header.frameBytes
                }
                if isLast {
                    if let later = Self.laterFrames(bytes, from: offset, store: store, after: lastFrame, generation: file.first.generation),
                        later.syncedThrough > lastFrame
                    {
                        throw Self.damage(
                            path, "frame \(lastFrame + 1) at byte \(offset) is damaged: frame \(later.number) behind it says that it was synced")
                    }
                    if let torn = bytes.firstNonzero(from: offset), !isClosed || torn < bytes.count { tornBytes = bytes.count - offset }
                    if isClosed, offset != bytes.count { throw Self.damage(path, "\(bytes.count - offset) bytes follow the closing frame") }
                    for frame in mine where frame.number > synced {
                        unsynced.append(Piece(slot: file.slot, offset: frame.offset, bytes: Array(bytes[frame.offset..<frame.offset + frame.bytes])))
                    }
                }
            }
            isFirst = false
        }
        // A file whose first frame is bad: torn by a crash, unless a frame behind it was written when that one was known synced.
        for file in headless where file.syncedThrough > lastFrame {
            throw Self.damage(file.path, "its first frame, \(lastFrame + 1), is damaged, but was known to be synced")
        }
        guard lastFrame >= archivedFrame else {
            throw EventLogError(
                .damaged,
                "\(directory): the journal ends at frame \(lastFrame), but the archive knows of frame \(archivedFrame): journal files are missing or cut. "
                    + "What the archive holds can be had with `convstore export --salvage`")
        }
    }

    /// What the whole frames of this store behind a bad one say: the first one's number, and the furthest frame that any knows synced.
    /// Frames start at multiples of eight.
    private static func laterFrames(
        _ bytes: UnsafeRawBufferPointer, from start: Int, store: StoreID, after number: UInt64, generation: UInt64?
    ) -> (number: UInt64, syncedThrough: UInt64)? {
        var found: (number: UInt64, syncedThrough: UInt64)?
        var offset = (start + 7) & ~7
        while offset + Frame.headerBytes <= bytes.count {
            if bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self).littleEndian == Frame.magic,
                let header = Frame.read(bytes, at: offset, store: store), header.number > number, generation ?? header.generation == header.generation
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
