#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What can be read of a journal that may be damaged, without following its chain.
///
/// Between two sound frames anything may lie, and of a damaged one its payload: what others wrote into messages, a frame's bytes perhaps. So only frames of
/// a generation count that the store's files may have (``Frame/Generation``).
struct SalvagedJournal {
    /// The sound frames with events that were asked for, as they lie.
    private(set) var frames: [TailFrame] = []
    /// The number of the newest frame of all; 0: none is sound.
    private(set) var newestFrame: UInt64 = 0
    /// Up to where the events of all of them go; 0: there are none.
    private(set) var end: Position = 0
    /// What is damaged, or cannot be told.
    private(set) var problems: [String] = []

    /// - Parameter last: what stands up to this position is known.
    init(directory: String, store: StoreID, after last: Position) {
        let files = (0..<FileJournal.fileCount).compactMap { slot -> (path: String, file: File)? in
            let path = FileJournal.path(directory, slot)
            return (try? File(path, O_RDONLY)).map { (path, $0) }
        }
        let contents = files.compactMap { path, file -> (path: String, bytes: [UInt8])? in
            if let bytes = try? file.read(min(file.size, FileJournal.fileBytesMax), at: 0) { return (path, bytes) }
            problems.append("\(path) cannot be read")
            return nil
        }
        // What a damaged head says of the generation may be wrong: then it leads to no frame.
        let whole = contents.compactMap { $0.bytes.withUnsafeBytes { Frame.read($0, at: 0, store: store)?.generation } }
        let told = contents.compactMap { $0.bytes.withUnsafeBytes { Frame.generation($0, at: 0, store: store) } }
        // nil: any.
        let ranges: [ClosedRange<UInt64>?] =
            if let range = Frame.Generation.around(whole) { [range] } else if let range = Frame.Generation.around(told) { [range, nil] } else { [nil] }
        let unread = self
        for trusted in ranges {
            self = unread
            for (path, bytes) in contents { bytes.withUnsafeBytes { take($0, path, trusted, store, after: last) } }
            guard newestFrame > 0 else { continue }
            if trusted == nil {
                problems.append("\(directory): no first frame of the journal's files is whole: whether what was found behind is the store's own cannot be told")
            }
            return
        }
    }

    private mutating func take(
        _ bytes: UnsafeRawBufferPointer, _ path: String, _ trusted: ClosedRange<UInt64>?, _ store: StoreID, after last: Position
    ) {
        let generation = Frame.generation(bytes, at: 0, store: store)
        if generation == nil, bytes.prefix(Frame.headerBytes).contains(where: { $0 != 0 }) { problems.append("\(path) begins with no frame") }
        var offset = 0
        while offset + Frame.headerBytes <= bytes.count {
            guard let header = Frame.read(bytes, at: offset, store: store), trusted?.contains(header.generation) ?? true else {
                if let generation, Frame.generation(bytes, at: offset, store: store) == generation, Frame.read(bytes, at: offset, store: store) == nil {
                    problems.append("\(path): the frame at byte \(offset) is damaged, or was not written to its end")
                }
                offset += 8
                continue
            }
            newestFrame = max(newestFrame, header.number)
            end = max(end, header.firstPosition + Position(header.events) - 1)
            let payload = bytes[offset + Frame.headerBytes..<offset + Frame.headerBytes + header.payloadBytes]
            if header.events > 0, header.firstPosition + Position(header.events) > last + 1,
                let frame = try? TailFrame(
                    UnsafeRawBufferPointer(rebasing: payload), number: header.number, firstPosition: header.firstPosition, events: header.events)
            {
                frames.append(frame)
            }
            offset += header.frameBytes
        }
    }
}
