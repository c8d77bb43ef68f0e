#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Whole stores as directories, for what replaces one by another.
package enum StoreFiles {
    package static func exists(_ path: String) -> Bool { Directory.exists(path) }

    /// A store's path without links, or slashes at its end: what is written anew lies beside the store itself.
    package static func resolved(_ path: String) -> String { Directory.resolved(path) }

    /// Removes a directory and all in it, if it is there.
    package static func remove(_ path: String) { Directory.removeTree(path) }

    /// Puts a directory in another's place, durably and in one step; the other has its name then. `false`: the file system cannot do that.
    package static func exchange(_ source: String, with target: String) throws -> Bool {
        do {
            guard try Directory.exchange(source, target) else { return false }
            try Directory.sync(Directory.parent(target))
            return true
        } catch {
            throw error.typed
        }
    }

    /// Renames a directory, durably.
    package static func rename(_ source: String, to target: String) throws {
        do {
            try Directory.rename(source, to: target)
            try Directory.sync(Directory.parent(target))
        } catch {
            throw error.typed
        }
    }
}

/// A store's directory is being replaced by another: nobody else does that meanwhile, nor writes into either.
///
/// A lock on a file of its own beside the store: those in the store go with its directory.
package final class StoreReplacement {
    private let file: File

    private static func name(_ path: String) -> String { StoreFiles.resolved(path) + ".replacing" }

    private static func busy(_ path: String) -> EventLogError {
        EventLogError(.busy, "\(path) is being set right by another process: try again when that has ended")
    }

    /// - Throws: `EventLogError`: `busy` if another one is under way.
    package init(of path: String) throws {
        do {
            while true {
                let file = try File(Self.name(path), O_RDWR | O_CREAT)
                guard file.lockExclusively() else { throw Self.busy(path) }
                // One that was removed meanwhile is nobody's.
                if file.isStillNamed {
                    self.file = file
                    break
                }
            }
        } catch let error as SystemError {
            throw error.typed
        }
    }

    package func end() {
        try? Directory.remove(file.path)
        file.unlock()
    }

    /// - Throws: `EventLogError`: `busy` if a replacement is under way.
    package static func checkNone(of path: String) throws {
        if let file = try? File(name(path), O_RDONLY), file.isLocked { throw busy(path) }
    }

    /// The same for a store that was just opened for writing: its directory may have been another's by then, or not be its path's any more.
    package static func checkNone(of store: EventStore) throws {
        try checkNone(of: store.path)
        guard store.isStillNamed else { throw busy(store.path) }
    }
}
