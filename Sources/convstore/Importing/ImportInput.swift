import Glibc
import Interchange

/// The files that were named, checked before anything is made or written.
struct ImportInput: Sendable {
    let paths: [String]
    /// Bytes of each; of standard input, pipes and devices nobody knows them before they are read.
    let sizes: [Int]

    /// Throws 66 if one is missing, and 64 if standard input is named twice.
    init(_ paths: [String]) throws {
        guard paths.filter({ $0 == "-" }).count <= 1 else { throw Failure(.usage, "standard input (-) can be read only once") }
        sizes = try paths.map { path in
            if path == "-" { return 0 }
            var status = stat()
            guard stat(path, &status) == 0, access(path, R_OK) == 0 else {
                throw Failure(.noInput, "\(path): \(String(cString: strerror(errno))); nothing was read")
            }
            guard status.st_mode & S_IFMT != S_IFDIR else {
                throw Failure(.noInput, "\(path) is a directory; name the files in it; nothing was read")
            }
            return Int(status.st_size)
        }
        self.paths = paths
    }

    /// Whether a file to be written is one of them.
    func holds(_ path: String) -> Bool {
        let wanted = FilePlace(path)
        return wanted.keepsBytes && paths.contains { $0 != "-" && FilePlace($0).isSame(as: wanted) }
    }

    static func open(_ path: String) throws(InputError) -> InputFile {
        try path == "-" ? InputFile.standardInput() : InputFile.open(path)
    }

    /// All of a small file. Throws 65 if it is larger than that.
    static func bytes(of path: String, atMost limit: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        try open(path).forEachBlock { (block) throws(Failure) -> Void in
            bytes.append(contentsOf: block)
            guard bytes.count <= limit else { throw Failure(.data, "\(path) is larger than \(limit) bytes") }
        }
        return bytes
    }
}
