/// Whole stores as directories, for what replaces one by another.
package enum StoreFiles {
    package static func exists(_ path: String) -> Bool { Directory.exists(path) }

    /// Removes a directory and all in it, if it is there.
    package static func remove(_ path: String) { Directory.removeTree(path) }

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
