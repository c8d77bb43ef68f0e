internal import CLMDB

internal import CRename

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A failing system call: which, on what, and why.
package struct SystemError: Error, CustomStringConvertible {
    let call: String
    let path: String
    let number: CInt

    package init(call: String, path: String, number: CInt) {
        self.call = call
        self.path = path
        self.number = number
    }

    package var description: String { "\(path): \(call): " + String(cString: strerror(number)) }
    var isNoSpace: Bool { number == ENOSPC || number == EDQUOT }
    var isAbsent: Bool { number == ENOENT || number == ENOTDIR }
    var isDenied: Bool { number == EACCES || number == EPERM || number == EROFS }

    /// The error that leaves the module.
    var typed: EventLogError {
        if isNoSpace { return EventLogError(.diskFull, "\(description); nothing of this was written: free some space and try again") }
        return EventLogError(.inputOutput, description)
    }
}

/// A file's descriptor, closed when nobody holds it.
final class File: Sendable {
    let descriptor: CInt
    let path: String
    private let faults: (any DiskFaults)?

    init(_ path: String, _ flags: CInt, mode: mode_t = 0o600) throws(SystemError) {
        self.path = path
        faults = FaultyDisks.disk(of: path)
        // A pipe in a file's place must not make us wait for its other end; files do not care.
        try faults?.willOpen(path)
        descriptor = open(path, flags | O_CLOEXEC | O_NONBLOCK, mode)
        if descriptor < 0 { throw SystemError(call: "open", path: path, number: errno) }
    }

    deinit { close(descriptor) }

    var size: Int {
        get throws(SystemError) {
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { throw SystemError(call: "fstat", path: path, number: errno) }
            return Int(status.st_size)
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(SystemError) {
        guard let faults else { return try put(bytes, at: offset) }
        let (count, failure) = try faults.willWrite(path, descriptor, offset: offset, count: bytes.count)
        try put(UnsafeRawBufferPointer(rebasing: bytes[..<count]), at: offset)
        if let failure { throw failure }
    }

    #if canImport(Glibc)
        /// Has the file system put room aside for a range behind the file's end, which reads as zeros; slow where the file system cannot do that, as its zeros
        /// are then written.
        func allocate(_ range: Range<Int>) throws(SystemError) {
            var (count, failure) = (range.count, SystemError?.none)
            if let faults { (count, failure) = try faults.willWrite(path, descriptor, offset: range.lowerBound, count: range.count) }
            while count > 0 {
                let number = posix_fallocate(descriptor, off_t(range.lowerBound), off_t(count))
                if number == 0 { break }
                if number != EINTR { throw SystemError(call: "posix_fallocate", path: path, number: number) }
            }
            if let failure { throw failure }
        }
    #endif

    private func put(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(SystemError) {
        var done = 0
        while done < bytes.count {
            let count = pwrite(descriptor, bytes.baseAddress! + done, bytes.count - done, off_t(offset + done))
            if count < 0 {
                if errno == EINTR { continue }
                throw SystemError(call: "write", path: path, number: errno)
            }
            if count == 0 { throw SystemError(call: "write", path: path, number: ENOSPC) }
            done += count
        }
    }

    /// Reads up to so many bytes; fewer at the end of the file.
    func read(_ count: Int, at offset: Int) throws(SystemError) -> [UInt8] {
        try faults?.willRead(path, offset: offset, count: count)
        var failure: SystemError?
        let result = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            var done = 0
            while done < count {
                let got = pread(descriptor, buffer.baseAddress! + done, count - done, off_t(offset + done))
                if got < 0 {
                    if errno == EINTR { continue }
                    failure = SystemError(call: "read", path: path, number: errno)
                    break
                }
                if got == 0 { break }
                done += got
            }
            initialized = done
        }
        if let failure { throw failure }
        return result
    }

    /// Lets the system forget what it cached of the file: reading ahead caches large pieces, which small writes would write whole.
    func dropCache() {
        #if canImport(Glibc)
            posix_fadvise(descriptor, 0, 0, CInt(POSIX_FADV_DONTNEED))
        #endif
    }

    func sync() throws(SystemError) {
        try faults?.willSync(path, descriptor)
        #if canImport(Darwin)
            // fsync on Apple systems leaves the bytes in the drive's cache.
            let result = fcntl(descriptor, F_FULLFSYNC)
        #else
            let result = fdatasync(descriptor)
        #endif
        if result != 0 { throw SystemError(call: "sync", path: path, number: errno) }
        try faults?.didSync(path, descriptor)
    }

    /// Syncs size and times too.
    func syncAll() throws(SystemError) {
        try faults?.willSync(path, descriptor)
        if fsync(descriptor) != 0 { throw SystemError(call: "sync", path: path, number: errno) }
        try faults?.didSync(path, descriptor)
    }

    func truncate(to size: Int) throws(SystemError) {
        try faults?.willTruncate(path, descriptor, to: size)
        if ftruncate(descriptor, off_t(size)) != 0 { throw SystemError(call: "truncate", path: path, number: errno) }
    }

    func unlock() { flock(descriptor, LOCK_UN) }

    /// Takes the advisory lock, which no other open of the file may hold; false if one does.
    ///
    /// One that only looks (``isLocked``) holds it for a moment: so a refusal is believed when it lasts.
    func lockExclusively() -> Bool {
        for attempt in 0..<5 {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return true }
            if attempt < 4 { usleep(2000) }
        }
        return false
    }

    /// Whether its path still leads to it.
    var isStillNamed: Bool {
        var (own, named) = (stat(), stat())
        return fstat(descriptor, &own) == 0 && stat(path, &named) == 0 && own.st_dev == named.st_dev && own.st_ino == named.st_ino
    }

    /// Whether someone holds the lock exclusively. Those who look do not see one another.
    var isLocked: Bool {
        guard flock(descriptor, LOCK_SH | LOCK_NB) == 0 else { return true }
        flock(descriptor, LOCK_UN)
        return false
    }
}

/// What is done to directories and names.
enum Directory {
    static func sync(_ path: String) throws(SystemError) {
        try FaultyDisks.disk(of: path + "/")?.willChangeNames(path)
        let directory = try File(path, O_RDONLY | O_DIRECTORY)
        if fsync(directory.descriptor) != 0 { throw SystemError(call: "sync", path: path, number: errno) }
    }

    static func make(_ path: String) throws(SystemError) {
        if mkdir(path, 0o700) != 0 { throw SystemError(call: "mkdir", path: path, number: errno) }
        chmod(path, 0o700)
    }

    static func rename(_ from: String, to: String) throws(SystemError) {
        try FaultyDisks.disk(of: from)?.willChangeNames(from)
        #if canImport(Glibc)
            let result = Glibc.rename(from, to)
        #else
            let result = Darwin.rename(from, to)
        #endif
        if result != 0 { throw SystemError(call: "rename", path: from, number: errno) }
    }

    /// Exchanges the names of two directories in one step. `false`: the file system cannot.
    static func exchange(_ one: String, _ other: String) throws(SystemError) -> Bool {
        if let disk = FaultyDisks.disk(of: one) {
            guard disk.exchangesNames else { return false }
            try disk.willChangeNames(one)
        }
        if convstore_exchange(one, other) == 0 { return true }
        if [EINVAL, ENOSYS, ENOTSUP, EXDEV, EPERM].contains(errno) { return false }
        throw SystemError(call: "rename", path: one, number: errno)
    }

    static func remove(_ path: String) throws(SystemError) {
        try FaultyDisks.disk(of: path)?.willChangeNames(path)
        if unlink(path) != 0, errno != ENOENT { throw SystemError(call: "unlink", path: path, number: errno) }
    }

    /// The path of what a name leads to, be it there or not yet: what lies beside that lies on the same disk.
    static func resolved(_ path: String, hops: Int = 8) -> String {
        func real(_ path: String) -> String? {
            guard let found = realpath(path, nil) else { return nil }
            defer { free(found) }
            return String(cString: found)
        }
        var path = path
        while path.utf8.count > 1, path.hasSuffix("/") { path.removeLast() }
        if let found = real(path) { return found }
        // A link whose end has no name just now.
        if hops > 0, let target = link(path) { return resolved(target.hasPrefix("/") ? target : parent(path) + "/" + target, hops: hops - 1) }
        guard let parent = real(parent(path)), let name = path.split(separator: "/").last else { return path }
        return parent == "/" ? "/" + name : parent + "/" + name
    }

    private static func link(_ path: String) -> String? {
        let count = Int(PATH_MAX)
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            filled = buffer.withMemoryRebound(to: CChar.self) { max(0, readlink(path, $0.baseAddress!, count)) }
        }
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }

    /// Whether two paths lead to one directory.
    static func isSame(_ path: String, _ other: String) -> Bool {
        var (status, otherStatus) = (stat(), stat())
        guard stat(path, &status) == 0, stat(other, &otherStatus) == 0 else { return false }
        return status.st_dev == otherStatus.st_dev && status.st_ino == otherStatus.st_ino
    }

    /// Whether one directory is another, or lies in it, however deep.
    static func contains(_ directory: String, _ other: String) -> Bool {
        var ancestor = other
        while !isSame(ancestor, directory) {
            let above = ancestor + "/.."
            if !exists(above) || isSame(above, ancestor) { return false }
            ancestor = above
        }
        return true
    }

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// Whether the directory of a file may be written to.
    static func isWritable(_ path: String) -> Bool { access(parent(path), W_OK) == 0 }

    static func names(_ path: String) throws(SystemError) -> [String] {
        guard let handle = opendir(path) else { throw SystemError(call: "opendir", path: path, number: errno) }
        defer { closedir(handle) }
        var result: [String] = []
        while let entry = readdir(handle) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { result.append(name) }
        }
        return result.sorted()
    }

    /// Removes a directory in which nothing is, if that is what a path leads to.
    static func removeEmpty(_ path: String) { rmdir(path) }

    /// Removes a directory of plain files.
    static func removeTree(_ path: String) {
        for name in (try? names(path)) ?? [] { unlink(path + "/" + name) }
        rmdir(path)
    }

    /// The directory in which a path stands.
    static func parent(_ path: String) -> String {
        var trimmed = path[...]
        while trimmed.count > 1, trimmed.hasSuffix("/") { trimmed.removeLast() }
        guard let slash = trimmed.lastIndex(of: "/") else { return "." }
        return slash == trimmed.startIndex ? "/" : String(trimmed[..<slash])
    }

    /// Refuses file systems over a network: neither locks nor shared maps hold there.
    static func refuseNetwork(_ path: String) throws {
        #if canImport(Glibc)
            var status = statfs()
            guard statfs(path, &status) == 0 else { return }
            try refuseNetwork(path, type: Int(truncatingIfNeeded: status.f_type))
        #endif
    }

    /// The same of a type as Linux numbers them (`f_type` of statfs(2)).
    static func refuseNetwork(_ path: String, type: Int) throws {
        let names: [Int: String] = [
            0x6969: "NFS", 0xFF53_4D42: "CIFS", 0xFE53_4D42: "SMB2", 0x517B: "SMB", 0x0102_1997: "9p", 0x5346_414F: "AFS", 0x00C3_6400: "Ceph",
            0x7461_636F: "OCFS2", 0x0BD0_0BD0: "Lustre", 0x0116_1970: "GFS2",
        ]
        if let name = names[type & 0xFFFF_FFFF] {
            throw EventLogError(.unsupportedFileSystem, "\(path) is on a network file system (\(name)), where locks and maps do not hold; use a local disk")
        }
    }

    /// Whether the file system on which a path lies is full: has next to no room for whoever we are.
    static func hasNoRoom(_ path: String) -> Bool {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return false }
        // Some blocks may be only root's.
        let blocks = geteuid() == 0 ? status.f_bfree : status.f_bavail
        return UInt64(blocks) * UInt64(status.f_frsize) < 1 << 20
    }

    /// Bytes on disk of a directory's files.
    static func diskBytes(_ path: String) -> Int {
        var total = 0
        for name in (try? names(path)) ?? [] {
            var status = stat()
            if lstat(path + "/" + name, &status) == 0 { total += Int(status.st_blocks) * 512 }
        }
        return total
    }
}
