#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Pages of a mapped file that this process has read: they stay in the system's page cache, but count as the process's memory until they are given back.
/// What is read again is mapped again, sixteen pages at a time, without reading from the device.
enum MappedPages {
    private static let pageBytes = UInt(sysconf(Int32(_SC_PAGESIZE)))

    /// Gives back the pages on which these bytes of a shared mapping lie; few are not worth a call.
    static func release(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 1 << 14, let address = bytes.baseAddress else { return }
        let first = UInt(bitPattern: address) / pageBytes * pageBytes
        release(from: first, byteCount: UInt(bitPattern: address) - first + UInt(bytes.count))
    }

    /// Gives back all pages of the shared mapping in which an address lies.
    static func releaseAll(around address: UnsafeRawPointer) {
        guard let mapping = mapping(around: UInt(bitPattern: address)) else { return }
        release(from: mapping.lowerBound, byteCount: mapping.upperBound - mapping.lowerBound)
    }

    private static func release(from address: UInt, byteCount: UInt) {
        // Of a shared mapping of a file this drops no data. If it fails, there is only less room.
        madvise(UnsafeMutableRawPointer(bitPattern: address), Int(byteCount), Int32(MADV_DONTNEED))
    }

    /// Asked of the system and not worked out from LMDB's pages, which may be damaged: given back must never be memory that is not the file's.
    private static func mapping(around address: UInt) -> Range<UInt>? {
        guard let file = fopen("/proc/self/maps", "r") else { return nil }
        defer { fclose(file) }
        var line: UnsafeMutablePointer<CChar>?
        var capacity = 0
        defer { free(line) }
        while getline(&line, &capacity, file) > 0, let text = line.map({ String(cString: $0) }) {
            // "7f5c00000000-7f5c10000000 r--s 00000000 fe:00 1234 /path"
            let fields = text.split(separator: " ", maxSplits: 2)
            guard fields.count > 1, fields[1].hasSuffix("s") else { continue }
            let bounds = fields[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
            if bounds.count == 2, bounds[0] <= address, address < bounds[1] { return bounds[0]..<bounds[1] }
        }
        return nil
    }
}
