#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A directory in which something is made before it takes its name: `NAME.WORD-PID`, beside `NAME`.
///
/// A process that is killed leaves its own behind; the next that makes the same name removes it. Whose process lives is told by its id and, as another
/// container has other ids, by a lock on the file `lock` in it, which a store has anyway.
struct Aside: ~Copyable {
    let path: String
    private let name: String
    private let lock: File

    /// Makes the directory, after it has removed those of processes that are gone.
    init(of name: String, _ word: String) throws(SystemError) {
        self.name = name
        path = "\(name).\(word)-\(getpid())"
        Self.removeAbandoned(of: name, word)
        // One with our id is of another process that had it before us.
        Directory.removeTree(path)
        try Directory.make(path)
        do throws(SystemError) {
            lock = try File(Self.lockPath(path), O_RDWR | O_CREAT)
        } catch {
            Directory.removeTree(path)
            throw error
        }
        _ = lock.lockExclusively()
    }

    /// Gives it the name, durably.
    consuming func rename() throws(SystemError) {
        try Directory.rename(path, to: name)
        try Directory.sync(Directory.parent(name))
        lock.unlock()
    }

    /// Removes it with all that is in it.
    func remove() { Directory.removeTree(path) }

    private static func lockPath(_ directory: String) -> String { directory + "/lock" }

    private static func removeAbandoned(of name: String, _ word: String) {
        let parent = Directory.parent(name)
        let prefix = "\(name.split(separator: "/").last ?? "").\(word)-"
        // Whoever may not list the directory leaves them.
        for entry in (try? Directory.names(parent)) ?? [] where entry.hasPrefix(prefix) {
            guard let process = pid_t(entry.dropFirst(prefix.count)), process > 0, kill(process, 0) != 0, errno == ESRCH else { continue }
            let path = parent + "/" + entry
            if let lock = try? File(lockPath(path), O_RDONLY), lock.isLocked { continue }
            Directory.removeTree(path)
        }
    }
}
