#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The file `parity` of a store: what restores damaged runs (docs/FORMAT.md, section 4.6).
///
/// It lies beside the archive and not in it, so that no damage of it keeps a store from being opened. Nothing rests on it: what cannot be written there is
/// left out, and what was written is synced behind the commits that it belongs to.
///
/// For several threads.
final class ParityFile: Sendable {
    private struct State {
        var file: File?
        /// Records that the file has.
        var count = 0
        /// Those that were given up: the next one is written there.
        var free: [Int] = []
        var isDirty = false
    }

    static let recordBytes = 8 + RunParity.byteCount + 8
    let path: String
    private let state = Monitor(State())

    init(directory: String, name: String = "parity") { path = directory + "/" + name }

    /// Writes the parity of a run of which there is none yet; one that is too small has none.
    func add(_ run: UnsafeRawBufferPointer, at position: Position) throws(SystemError) {
        if let parity = RunParity.of(run) { try add(parity: parity, at: position) }
    }

    /// Adds what there was of a run.
    func add(parity: [UInt8], at position: Position) throws(SystemError) {
        let record = Self.record(position, parity)
        try locked { (state) throws(SystemError) in
            let file = try open(&state)
            try Self.write(record, at: state.free.last ?? state.count, file)
            if state.free.popLast() == nil { state.count += 1 }
            state.isDirty = true
        }
    }

    /// Writes over all that there is of a run at a position, and what cannot be told whose it is, durably; then adds the parity of the run as it is now, if that
    /// can be done.
    ///
    /// - Parameter archiveBytes: of the runs: a file of more records than they may have is not looked through.
    func replace(_ run: UnsafeRawBufferPointer, at position: Position, archiveBytes: Int) throws(SystemError) {
        try locked { (state) throws(SystemError) in
            guard Directory.exists(path) else { return }
            let file = try open(&state)
            guard state.count <= Self.countMax(archiveBytes: archiveBytes) else { throw SystemError(call: "read", path: path, number: EFBIG) }
            // What a crash left of one that was being added.
            try file.truncate(to: state.count * Self.recordBytes)
            state.isDirty = true
            for slot in 0..<state.count where Self.mayTell(of: position, try? file.read(Self.recordBytes, at: slot * Self.recordBytes)) {
                try Self.write([UInt8](repeating: 0, count: Self.recordBytes), at: slot, file)
                state.free.append(slot)
            }
            try file.sync()
            state.isDirty = false
        }
        try? add(run, at: position)
        try? sync()
    }

    /// - Parameter record: `nil`: it cannot be read.
    private static func mayTell(of position: Position, _ record: [UInt8]?) -> Bool {
        guard let record, record.count == recordBytes else { return true }
        if record.allSatisfy({ $0 == 0 }) { return false }
        return !isSound(record) || Archive.position(record[..<8].reversed()) == position
    }

    fileprivate static func isSound(_ record: [UInt8]) -> Bool {
        record.withUnsafeBytes { bytes in
            let end = bytes.count - 8
            return bytes.loadUnaligned(fromByteOffset: end, as: UInt64.self).littleEndian == XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[..<end]))
        }
    }

    private static func countMax(archiveBytes: Int) -> Int { 2 * archiveBytes / RunParity.runBytesMin + 16 }

    /// Puts another file in this one's place.
    func replace(by other: ParityFile) throws(SystemError) {
        other.close()
        try locked { (state) throws(SystemError) in
            state = State()
            Directory.removeEmpty(path)
            try Directory.rename(other.path, to: path)
        }
    }

    /// What was written is on the disk then.
    func sync() throws(SystemError) {
        try locked { (state) throws(SystemError) in
            guard state.isDirty, let file = state.file else { return }
            try file.sync()
            state.isDirty = false
        }
    }

    /// Removes the file with all that it has.
    func remove() throws(SystemError) {
        try locked { (state) throws(SystemError) in
            state = State()
            // A directory in its place is none of ours.
            do throws(SystemError) { try Directory.remove(path) } catch {
                guard [EISDIR, EPERM].contains(error.number), (try? File(path, O_RDONLY | O_DIRECTORY)) != nil else { throw error }
            }
        }
    }

    /// Lets go of the file: it may be replaced by another.
    func close() { state.withLock { $0 = State() } }

    /// What there is, to be read record by record, but for what cannot be read.
    ///
    /// - Parameter archiveBytes: of the runs: there are no more records than they may have.
    func records(archiveBytes: Int) -> ParityRecords {
        var records = ParityRecords()
        guard let file = state.withLock({ $0.file }) ?? (try? File(path, O_RDONLY)), let size = try? file.size else { return records }
        records.file = file
        for slot in 0..<min(size / Self.recordBytes, Self.countMax(archiveBytes: archiveBytes)) {
            guard let bytes = try? file.read(8, at: slot * Self.recordBytes) else { continue }
            let position = Archive.position(bytes.reversed())
            if position > 0 { records.slots[position, default: []].append(slot) }
        }
        return records
    }

    private func locked(_ body: (inout State) throws(SystemError) -> Void) throws(SystemError) {
        let failure: SystemError? = state.withLock { state in
            do throws(SystemError) {
                try body(&state)
                return nil
            } catch {
                return error
            }
        }
        if let failure { throw failure }
    }

    /// A record that a crash left cut short is written over.
    private func open(_ state: inout State) throws(SystemError) -> File {
        if let file = state.file { return file }
        // What a link leads to is none of ours.
        let file = try File(path, O_RDWR | O_CREAT | O_NOFOLLOW)
        state.count = try file.size / Self.recordBytes
        state.file = file
        return file
    }

    private static func record(_ position: Position, _ parity: [UInt8]) -> [UInt8] {
        var out = ByteBuffer(capacity: recordBytes)
        out.put(fixed64: position)
        parity.withUnsafeBytes { out.put($0) }
        out.put(fixed64: XXH64.hash(out.bytes, seed: 0))
        return out.array()
    }

    private static func write(_ record: [UInt8], at slot: Int, _ file: File) throws(SystemError) {
        var failure: SystemError?
        record.withUnsafeBytes { bytes in
            do throws(SystemError) { try file.write(bytes, at: slot * recordBytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }
}

/// The records of a file `parity`, as it was when they were looked for.
struct ParityRecords {
    fileprivate var file: File?
    fileprivate var slots: [Position: [Int]] = [:]

    func has(_ position: Position) -> Bool { slots[position] != nil }
    var positions: some Sequence<Position> { slots.keys }

    /// The newest parity of the run at a position that is sound; `nil` if there is none.
    func parity(at position: Position) -> [UInt8]? {
        for slot in (slots[position] ?? []).reversed() {
            guard let record = try? file?.read(ParityFile.recordBytes, at: slot * ParityFile.recordBytes), record.count == ParityFile.recordBytes else {
                continue
            }
            let isSound = ParityFile.isSound(record) && Archive.position(record[..<8].reversed()) == position
            if isSound { return Array(record[8..<8 + RunParity.byteCount]) }
        }
        return nil
    }
}
