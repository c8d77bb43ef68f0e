import Glibc

/// By what one sees that a store's files have changed, without opening them.
struct FileMarks: Equatable {
    private struct Mark: Equatable {
        var device: UInt = 0
        var inode: UInt = 0
        var size = 0
        var changed: Int64 = 0
    }

    private var marks: [Mark] = []
    /// When one of them changed last: nanoseconds since 1970.
    private(set) var lastChange: Int64 = 0

    private init(_ names: [String], in directory: String) {
        for name in names {
            var status = stat()
            // One that is not there has no mark, which is a mark too.
            guard stat(directory + "/" + name, &status) == 0 else {
                marks.append(Mark())
                continue
            }
            let changed = Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec)
            marks.append(Mark(device: UInt(status.st_dev), inode: UInt(status.st_ino), size: Int(status.st_size), changed: changed))
            lastChange = max(lastChange, changed)
        }
    }

    /// Of the archive only: what it holds moves there from the journal, without becoming more.
    static func archive(of store: String) -> FileMarks { FileMarks(["archive"], in: store) }

    /// Of all that an append or a flush writes, and on a replica an outbox.
    static func all(of store: String) -> FileMarks { FileMarks(["archive", "journal.0", "journal.1", "journal.2", "journal.3", "sync"], in: store) }
}
