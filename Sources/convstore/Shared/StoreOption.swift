import ArgumentParser
import ConversationStore
import Glibc
import Replication

/// `--store`, and the ways to open it.
struct StoreOption: ParsableArguments {
    @Option(name: .customLong("store"), help: ArgumentHelp("The store's directory.", valueName: "store"))
    var path: String

    func validate() throws {
        if path.isEmpty { throw ValidationError("--store is empty; name the store's directory.") }
        // Whoever reads it offline, or would make another in its place. Where that fails, the opening says more.
        try? Replica.recover(at: path)
    }

    /// Opens the log beside a writer, if there is one, for the length of the closure.
    func read<Result>(_ body: (EventStore) throws -> Result) throws -> Result {
        let store = try EventStore.open(at: path, options: StoreOptions(access: .readOnly))
        return try closing(store, store.close, body)
    }

    /// Opens what exists, for writing.
    func write<Result>(_ body: (ConversationStore) throws -> Result) throws -> Result {
        try with(ConversationStoreOptions(access: .existing), body)
    }

    /// Opens log and projections beside a writer, if there is one. Where nobody writes, the missing projections of a long log are built first.
    ///
    /// What the closure answers is one state of the store: where the writer archived something meanwhile, it is asked again. So it must only read.
    func show<Result>(_ body: (ConversationStore) throws -> Result) throws -> Result {
        var left = Self.readingTries
        while true {
            left -= 1
            let before = FileMarks.archive(of: path)
            do {
                let result = try open(body)
                if FileMarks.archive(of: path) == before || left == 0 { return result }
            } catch let error as EventLogError {
                // A writer beside us, or its closing, may have replaced what we were opening.
                guard left > 0, FileMarks.archive(of: path) != before else { throw error }
            }
            usleep(20_000)
        }
    }

    private static let readingTries = 10

    private func open<Result>(_ body: (ConversationStore) throws -> Result) throws -> Result {
        do {
            return try with(ConversationStoreOptions(access: .readOnly), body)
        } catch let error as EventLogError where error.code == .projectionMissing {
            try write { _ in }
            return try with(ConversationStoreOptions(access: .readOnly), body)
        }
    }

    /// Closes the store however the closure ends; a failing close counts unless something failed before, or only the archive had no room.
    func with<Result>(_ options: ConversationStoreOptions, _ body: (ConversationStore) throws -> Result) throws -> Result {
        let store = try open(options)
        return try closing(store, store.close, isWriter: true, body)
    }

    func open(_ options: ConversationStoreOptions) throws -> ConversationStore {
        let progress = ProgressOfRebuild()
        defer { progress.clear() }
        var options = options
        options.rebuildProgress = { progress.update($0, $1) }
        // On a replica what is on its way to the hub is shown too. Read before the log: what is confirmed in between is in both, and shown once.
        var overlay: ReplicaOverlay?
        let writes = if case .readOnly = options.access { false } else { true }
        if !writes { overlay = try ReplicaOverlay(of: path) }
        // What is written into a replica whose place another one takes, an erasure too, would be gone; and an opening changes what is salvaged meanwhile.
        if writes { try StoreReplacement.checkNone(of: path) }
        let store = try ConversationStore.open(at: path, options: options)
        do {
            if writes { try StoreReplacement.checkNone(of: store.log) }
            try overlay?.show(in: store)
        } catch {
            try? store.close()
            throw error
        }
        return store
    }

    /// Opens a replica that is there.
    func replica<Result>(_ body: (Replica) throws -> Result) throws -> Result {
        let replica = try Replica.open(at: path, user: nil)
        return try closing(replica, replica.close, isWriter: true, body)
    }

    /// Throws 69 if the store is a replica, whose log only its hub writes.
    func refuseReplica(_ instead: String) throws {
        if try Replica.isReplica(at: path) { throw Failure(.unavailable, "\(path) is a replica, whose events come from its hub; \(instead)") }
    }

    /// Throws 64 if a file that is to be written lies in the store's directory: what is there is the store's alone.
    func refuseOutputs(_ paths: String?...) throws {
        for path in paths.compactMap({ $0 }) where FilePlace(path).isInside(self.path) {
            throw Failure(.usage, "\(path) lies in the store \(self.path), where nothing else may be written; name a file elsewhere")
        }
    }

    private func closing<Store, Result>(
        _ store: Store, _ close: () throws -> Void, isWriter: Bool = false, _ body: (Store) throws -> Result
    ) throws -> Result {
        let result: Result
        do {
            result = try body(store)
        } catch {
            try? close()
            throw error
        }
        try isWriter ? Self.closeKeeping(close) : close()
        return result
    }

    /// Closes behind what was done. That the archive has no room then does no harm to it, as it is in the journal: it must not be said to have failed, and be
    /// done again.
    static func closeKeeping(_ close: () throws -> Void) throws {
        do { try close() } catch let error as EventLogError where error.code == .diskFull {
            Terminal.complain("warning: what was asked for is done and kept, but the store could not be put away: \(error)")
        }
    }
}

/// The progress bar of an opening that has to fold the log anew.
private final class ProgressOfRebuild: Sendable {
    private let bar = Monitor<ProgressBar?>(nil)

    func update(_ done: UInt64, _ total: UInt64) {
        bar.withLock { bar in
            if bar == nil { bar = ProgressBar("Building what screens show") }
            bar!.update(done: Double(done), total: Double(total), count: Int(done), "events")
        }
    }

    func clear() {
        bar.withLock { bar in
            bar?.clear()
            bar = nil
        }
    }
}
