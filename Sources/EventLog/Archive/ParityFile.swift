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
        var isDirty = false
    }

    static let recordBytes = 8 + RunParity.byteCount + 8
    let path: String
    private let state = Monitor(State())

    init(directory: String, name: String = "parity") { path = directory + "/" + name }

    /// Writes the parity of a run of which there is none yet; one that is too small has none.
    func add(_ run: UnsafeRawBufferPointer, at position: Position) throws(SystemError) {
        guard let parity = RunParity.of(run) else { return }
        let record = Self.record(position, parity)
        try locked { (state) throws(SystemError) in
            try Self.write(record, at: state.count, open(&state))
            state.count += 1
            state.isDirty = true
        }
    }

    /// Writes the parity of a run over all that there is of another run at its position, or behind the rest. What was written over is on the disk then.
    func replace(_ run: UnsafeRawBufferPointer, at position: Position) throws(SystemError) {
        let parity = RunParity.of(run)
        try locked { (state) throws(SystemError) in
            if parity == nil, !Directory.exists(path) { return }
            let file = try open(&state)
            let slots = try Self.positions(file, state.count).filter { $0.position == position }.map(\.slot)
            for slot in slots { try Self.write([UInt8](repeating: 0, count: Self.recordBytes), at: slot, file) }
            if let parity {
                let slot = slots.first ?? state.count
                try Self.write(Self.record(position, parity), at: slot, file)
                state.count = max(state.count, slot + 1)
            }
            try file.sync()
            state.isDirty = false
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
            try Directory.remove(path)
        }
    }

    /// Lets go of the file: it may be replaced by another.
    func close() { state.withLock { $0 = State() } }

    /// What there is, to be read record by record; nothing, if it cannot be read.
    func records() -> ParityRecords {
        let file = state.withLock { $0.file } ?? (try? File(path, O_RDONLY))
        guard let file, let count = try? file.size / Self.recordBytes, let positions = try? Self.positions(file, count) else { return ParityRecords() }
        return ParityRecords(file: file, slots: Dictionary(positions.map { ($0.position, $0.slot) }) { $1 })
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
        let file = try File(path, O_RDWR | O_CREAT)
        state.count = try file.size / Self.recordBytes
        state.file = file
        return file
    }

    private static func positions(_ file: File, _ count: Int) throws(SystemError) -> [(position: Position, slot: Int)] {
        var found: [(position: Position, slot: Int)] = []
        for slot in 0..<count {
            let bytes = try file.read(8, at: slot * recordBytes)
            let position = bytes.reversed().reduce(Position(0)) { $0 << 8 | Position($1) }
            if bytes.count == 8, position > 0 { found.append((position, slot)) }
        }
        return found
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
    fileprivate var slots: [Position: Int] = [:]

    func has(_ position: Position) -> Bool { slots[position] != nil }

    /// The parity of the run at a position; `nil` if there is none, or it is damaged.
    func parity(at position: Position) -> [UInt8]? {
        guard let file, let slot = slots[position], let record = try? file.read(ParityFile.recordBytes, at: slot * ParityFile.recordBytes),
            record.count == ParityFile.recordBytes
        else { return nil }
        let isSound = record.withUnsafeBytes { bytes in
            let end = record.count - 8
            return bytes.loadUnaligned(as: UInt64.self).littleEndian == position
                && bytes.loadUnaligned(fromByteOffset: end, as: UInt64.self).littleEndian == XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[..<end]))
        }
        return isSound ? Array(record[8..<8 + RunParity.byteCount]) : nil
    }
}
