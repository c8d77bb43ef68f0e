package import EventLog

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The disk under one directory, which fails when told to, and which a crash takes back to what was synced.
///
/// Files lie where they always do (best in memory: /dev/shm); what a write overwrites is kept until the file's next sync. Names are as on a
/// file system that journals them: a rename, a removal and a new file last at once and in order. LMDB's transactions sync by themselves and count as
/// atomic.
package final class SimulatedDisk: DiskFaults {
    package enum Call: Int, CaseIterable, Sendable {
        case open, write, truncate, sync, names, commit
    }

    package enum Fault: Sendable {
        case noSpace
        case inputOutput
        /// A write of which only so many bytes get through.
        case short(Int)
    }

    /// What a crash leaves of what was written and not synced.
    package enum Keeping: Sendable {
        case nothing
        case everything
        /// Any subset of the 512-byte sectors, as drawn from the seed.
        case some(seed: UInt64)
    }

    struct State {
        var calls = [Int](repeating: 0, count: Call.allCases.count)
        var planned: [(call: Call, number: Int, fault: Fault)] = []
        /// The crash that is to come: after so many more calls that change something.
        var crash: (after: Int, keeping: Keeping)?
        var hasCrashed = false
        /// Bytes by which files may still grow; `nil`: any number.
        var bytesFree: Int?
        var exchangesNames = true
        var unsynced: [UnsyncedFile.Identity: UnsyncedFile] = [:]
        var archiveBytes: [String: Int] = [:]
    }

    package let directory: String
    private let state = Monitor(State())

    /// Stands for the disk of a directory, which need not exist yet, until `remove`.
    package init(_ directory: String) {
        self.directory = directory
        FaultyDisks.add(self, for: directory)
    }

    /// The directory is the system's again.
    package func remove() {
        FaultyDisks.remove(self)
        state.withLock { $0.forget() }
    }

    /// How often a call was made so far.
    package func count(_ call: Call) -> Int { state.withLock { $0.calls[call.rawValue] } }

    /// All calls at which a crash can strike.
    package var changes: Int { state.withLock { $0.calls.reduce(0, +) } }

    package var hasCrashed: Bool { state.withLock { $0.hasCrashed } }

    package var exchangesNames: Bool {
        get { state.withLock { $0.exchangesNames } }
        set { state.withLock { $0.exchangesNames = newValue } }
    }

    package var bytesFree: Int? {
        get { state.withLock { $0.bytesFree } }
        set { state.withLock { $0.bytesFree = newValue } }
    }

    /// Makes a call fail: the so-many-eth from now, 1 being the next.
    package func fail(_ call: Call, _ number: Int = 1, with fault: Fault) {
        state.withLock { $0.planned.append((call, $0.calls[call.rawValue] + number, fault)) }
    }

    /// Crashes before the so-many-eth call from now, 1 being the next.
    package func crash(atCall number: Int, keeping: Keeping) { state.withLock { $0.crash = (number, keeping) } }

    /// Nothing that was planned happens any more.
    package func calmDown() {
        state.withLock { state in
            state.crash = nil
            state.planned = []
        }
    }

    /// The power fails now. Whoever has files open here must be abandoned.
    package func crash(keeping: Keeping) { state.withLock { $0.takeBack(keeping) } }

    /// The power is back: what is there now is what there was.
    package func restart() {
        state.withLock { state in
            state.hasCrashed = false
            state.crash = nil
            state.planned = []
            state.forget()
        }
    }

    private static func crashed(_ path: String) -> SystemError { SystemError(call: "crash", path: path, number: EIO) }

    /// Counts a call; throws if it is to fail.
    private func take(_ call: Call, _ path: String, _ state: inout State, isSecondHalf: Bool = false) throws(SystemError) -> Fault? {
        if state.hasCrashed { throw Self.crashed(path) }
        if var crash = state.crash {
            crash.after -= 1
            state.crash = crash
            if crash.after <= 0 {
                state.takeBack(crash.keeping)
                throw Self.crashed(path)
            }
        }
        if isSecondHalf { return nil }
        state.calls[call.rawValue] += 1
        let number = state.calls[call.rawValue]
        guard let place = state.planned.firstIndex(where: { $0.call == call && $0.number == number }) else { return nil }
        return state.planned.remove(at: place).fault
    }

    private static func failure(_ fault: Fault?, _ call: Call, _ path: String) throws(SystemError) {
        switch fault {
        case nil: return
        case .noSpace: throw SystemError(call: "\(call)", path: path, number: ENOSPC)
        case .inputOutput, .short: throw SystemError(call: "\(call)", path: path, number: EIO)
        }
    }

    private func with<R>(_ body: (inout State) -> Result<R, SystemError>) throws(SystemError) -> R { try state.withLock(body).get() }

    package func willOpen(_ path: String) throws(SystemError) {
        try with { state in
            Result { () throws(SystemError) in try Self.failure(self.take(.open, path, &state), .open, path) }
        }
    }

    package func willWrite(_ path: String, _ descriptor: CInt, offset: Int, count: Int) throws(SystemError) -> (count: Int, failure: SystemError?) {
        try with { state in
            Result { () throws(SystemError) in
                var allowed = count
                var failure: SystemError?
                switch try self.take(.write, path, &state) {
                case .short(let bytes)?:
                    allowed = min(bytes, count)
                    failure = SystemError(call: "write", path: path, number: EIO)
                case let fault: try Self.failure(fault, .write, path)
                }
                let status = UnsyncedFile.status(descriptor)
                let size = status?.size ?? 0
                if let free = state.bytesFree, offset + allowed > size + free {
                    allowed = max(0, size + free - offset)
                    failure = SystemError(call: "write", path: path, number: ENOSPC)
                }
                if let free = state.bytesFree { state.bytesFree = free - max(0, offset + allowed - size) }
                state.remember(descriptor, status) { $0.willWrite(offset, allowed, fileBytes: size) }
                return (allowed, failure)
            }
        }
    }

    package func willTruncate(_ path: String, _ descriptor: CInt, to size: Int) throws(SystemError) {
        try with { state in
            Result { () throws(SystemError) in
                try Self.failure(self.take(.truncate, path, &state), .truncate, path)
                let status = UnsyncedFile.status(descriptor)
                let old = status?.size ?? 0
                if let free = state.bytesFree { state.bytesFree = free + old - size }
                state.remember(descriptor, status) { if size < old { $0.willWrite(size, old - size, fileBytes: old) } }
            }
        }
    }

    package func willSync(_ path: String, _ descriptor: CInt) throws(SystemError) {
        try with { state in
            Result { () throws(SystemError) in try Self.failure(self.take(.sync, path, &state), .sync, path) }
        }
    }

    package func didSync(_ path: String, _ descriptor: CInt) throws(SystemError) {
        try with { state in
            Result { () throws(SystemError) in
                state.settle(descriptor)
                _ = try self.take(.sync, path, &state, isSecondHalf: true)
            }
        }
    }

    package func willChangeNames(_ path: String) throws(SystemError) {
        try with { state in
            Result { () throws(SystemError) in try Self.failure(self.take(.names, path, &state), .names, path) }
        }
    }

    /// With less than this free, a transaction that needs new pages finds none.
    private static let commitBytes = 16 << 10

    package func willCommit(_ path: String) throws(SystemError) {
        try with { state in
            Result { () throws(SystemError) in
                try Self.failure(self.take(.commit, path, &state), .commit, path)
                guard let free = state.bytesFree else { return }
                if free < Self.commitBytes { throw SystemError(call: "commit", path: path, number: ENOSPC) }
                state.archiveBytes[path] = UnsyncedFile.size(path)
            }
        }
    }

    package func didCommit(_ path: String) throws(SystemError) {
        try with { state in
            Result { () throws(SystemError) in
                if let free = state.bytesFree, let before = state.archiveBytes[path] {
                    state.bytesFree = max(0, free - (UnsyncedFile.size(path) - before))
                }
                _ = try self.take(.commit, path, &state, isSecondHalf: true)
            }
        }
    }
}

extension SimulatedDisk.State {
    mutating func remember(_ descriptor: CInt, _ status: (identity: UnsyncedFile.Identity, size: Int)?, _ note: (inout UnsyncedFile) -> Void) {
        guard let status else { return }
        note(&unsynced[status.identity, default: UnsyncedFile(descriptor, size: status.size)])
    }

    mutating func settle(_ descriptor: CInt) {
        guard let identity = UnsyncedFile.Identity(descriptor) else { return }
        unsynced.removeValue(forKey: identity)?.close()
    }

    mutating func takeBack(_ keeping: SimulatedDisk.Keeping) {
        hasCrashed = true
        var random: SeededGenerator?
        if case .some(let seed) = keeping { random = SeededGenerator(seed: seed) }
        if case .everything = keeping { return forget() }
        for (_, file) in unsynced.sorted(by: { $0.key < $1.key }) { file.takeBack(&random) }
        forget()
    }

    mutating func forget() {
        for file in unsynced.values { file.close() }
        unsynced = [:]
    }
}
