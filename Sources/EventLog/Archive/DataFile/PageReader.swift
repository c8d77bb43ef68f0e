#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Whole reads at an offset: repeated if interrupted or short.
struct PageReader {
    enum Failure: Error, Hashable, CustomStringConvertible {
        case endOfFile
        case system(CInt)

        var description: String {
            switch self {
            case .endOfFile: "the file ends before it"
            case .system(let code): "it cannot be read: \(String(cString: strerror(code)))"
            }
        }
    }

    let descriptor: CInt
    var path = ""
    var faults: (any DiskFaults)?

    /// Nil if all bytes were read. The caller made sure that `offset` is within what a file can have.
    func read(_ count: Int, at offset: UInt64, into target: UnsafeMutableRawPointer) -> Failure? {
        if let faults {
            do throws(SystemError) { try faults.willRead(path, offset: Int(offset), count: count) } catch { return .system(error.number) }
        }
        var done = 0
        while done < count {
            let result = pread(descriptor, target + done, count - done, off_t(offset) + off_t(done))
            if result > 0 {
                done += result
            } else if result == 0 {
                return .endOfFile
            } else if errno != EINTR {
                return .system(errno)
            }
        }
        return nil
    }
}
