import Glibc

/// Where a path leads in the end, through links and `..`: also that of a file that is not there yet.
struct FilePlace {
    private struct Identity: Hashable {
        var device: dev_t
        var inode: ino_t

        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            (device, inode) = (status.st_dev, status.st_ino)
        }
    }

    private static let linksMax = 40
    /// The directory that it stands in, as a path that is no link's.
    private let parent: String
    private let name: String
    private let identity: Identity?

    init(_ path: String) {
        // The system follows all but the last name by itself.
        var target = path
        var link = [UInt8](repeating: 0, count: Int(PATH_MAX))
        for _ in 0..<Self.linksMax {
            let (parent, name) = Self.parts(target)
            let count = link.withUnsafeMutableBytes { readlink(parent + "/" + name, $0.baseAddress!, $0.count) }
            guard count > 0 else { break }
            let next = String(decoding: link[..<count], as: UTF8.self)
            target = next.hasPrefix("/") ? next : parent + "/" + next
        }
        (parent, name) = Self.parts(target)
        identity = Identity(path)
    }

    private static func parts(_ path: String) -> (parent: String, name: String) {
        var trimmed = path[...]
        while trimmed.count > 1, trimmed.hasSuffix("/") { trimmed.removeLast() }
        guard let slash = trimmed.lastIndex(of: "/") else { return (".", String(trimmed)) }
        return (slash == trimmed.startIndex ? "/" : String(trimmed[..<slash]), String(trimmed[trimmed.index(after: slash)...]))
    }

    /// Whether both are one file, be it under two names (hard links), or would be one if it were made.
    func isSame(as other: FilePlace) -> Bool {
        if let identity { return identity == other.identity }
        guard other.identity == nil, name == other.name, let directory = Identity(parent) else { return false }
        return directory == Identity(other.parent)
    }

    /// Whether it is a file that keeps what is written: no terminal, pipe or `/dev/null`. One that is not there yet will be.
    var keepsBytes: Bool {
        var status = stat()
        return stat(parent + "/" + name, &status) != 0 || status.st_mode & S_IFMT == S_IFREG
    }

    /// Whether it lies in a directory, however deep, or is that directory itself, or another name of one of its files.
    func isInside(_ directory: String) -> Bool {
        if isSame(as: FilePlace(directory)) { return true }
        guard let wanted = Identity(directory) else { return false }
        var ancestor = parent
        while let here = Identity(ancestor) {
            if here == wanted { return true }
            let above = ancestor + "/.."
            if Identity(above) == here { break }
            ancestor = above
        }
        guard let identity, let handle = opendir(directory) else { return false }
        defer { closedir(handle) }
        while let entry = readdir(handle) {
            if entry.pointee.d_ino == identity.inode, wanted.device == identity.device { return true }
        }
        return false
    }
}
