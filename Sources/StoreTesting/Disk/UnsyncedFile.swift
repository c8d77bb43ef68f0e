#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What a file was at its last sync, as far as it has changed since.
struct UnsyncedFile {
    /// Names change; this stays.
    struct Identity: Hashable, Comparable {
        let device: UInt64
        let number: UInt64

        init?(_ descriptor: CInt) {
            guard let found = UnsyncedFile.status(descriptor) else { return nil }
            self = found.identity
        }

        init(device: UInt64, number: UInt64) {
            self.device = device
            self.number = number
        }

        static func < (left: Self, right: Self) -> Bool { (left.device, left.number) < (right.device, right.number) }
    }

    static let sectorBytes = 512
    /// Our own, as the file may be closed before the crash.
    private let descriptor: CInt
    private let size: Int
    /// Whole sectors (but for a file's last) as they were, in the order of the writes.
    private var before: [(sectors: Range<Int>, bytes: [UInt8])] = []

    init(_ descriptor: CInt, size: Int) {
        self.descriptor = dup(descriptor)
        self.size = size
    }

    func close() { closeDescriptor(descriptor) }

    /// Which file it is, and how large.
    static func status(_ descriptor: CInt) -> (identity: Identity, size: Int)? {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        return (Identity(device: UInt64(status.st_dev), number: UInt64(status.st_ino)), Int(status.st_size))
    }

    static func size(_ descriptor: CInt) -> Int { status(descriptor)?.size ?? 0 }

    static func size(_ path: String) -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    /// - Parameter fileBytes: the file's size now.
    mutating func willWrite(_ offset: Int, _ count: Int, fileBytes: Int) {
        if count == 0 { return }
        let first = offset / Self.sectorBytes
        let end = (offset + count + Self.sectorBytes - 1) / Self.sectorBytes
        // Behind its end there is nothing to be read.
        guard first * Self.sectorBytes < fileBytes else { return before.append((first..<end, [])) }
        let bytes = [UInt8](unsafeUninitializedCapacity: (end - first) * Self.sectorBytes) { buffer, count in
            count = max(0, pread(descriptor, buffer.baseAddress!, buffer.count, off_t(first * Self.sectorBytes)))
        }
        before.append((first..<end, bytes))
    }

    /// Makes the file what it was; with a generator, sector by sector as it falls.
    func takeBack(_ random: inout SeededGenerator?) {
        var sectors: [Int: [UInt8]] = [:]
        for (range, bytes) in before {
            for sector in range where sectors[sector] == nil {
                let place = min((sector - range.lowerBound) * Self.sectorBytes, bytes.count)
                sectors[sector] = Array(bytes[place..<min(place + Self.sectorBytes, bytes.count)])
            }
        }
        let now = Self.size(descriptor)
        var size = self.size
        if now != size, random?.chance(0.5) ?? false { size = now }
        for (sector, bytes) in sectors.sorted(by: { $0.key < $1.key }) {
            if random?.chance(0.5) ?? false { continue }
            let bytes = bytes + [UInt8](repeating: 0, count: Self.sectorBytes - bytes.count)
            let count = pwrite(descriptor, bytes, bytes.count, off_t(sector * Self.sectorBytes))
            precondition(count == bytes.count, "the simulated disk has no room left")
        }
        precondition(ftruncate(descriptor, off_t(size)) == 0, "the simulated disk cannot be taken back")
    }
}

/// A method's own name hides the system's.
private func closeDescriptor(_ descriptor: CInt) { close(descriptor) }
