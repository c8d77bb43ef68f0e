/// What lies beside a run so that lost bytes of it can be had again without another copy: the exclusive or of its bytes, a page's length from each other.
///
/// So much as a page of a run in a row follows from all else of it, as a disk's bytes do in RAID 4 (Patterson, Gibson, Katz: "A case for redundant arrays of
/// inexpensive disks", 1988). Where the bytes were lost nobody tells: places that fit are tried until the run's checksums hold. Of two places in one run it
/// restores neither.
enum RunParity {
    /// A page: what a disk loses at once.
    static let byteCount = 4096
    /// Of a smaller run there is none. To have its events again costs less than 128 KiB, though twice its bytes where it is of hundreds of logs.
    static let runBytesMin = 32 << 10

    /// `nil`: the run is too small.
    static func of(_ run: UnsafeRawBufferPointer) -> [UInt8]? {
        guard run.count >= runBytesMin else { return nil }
        return folded(run)
    }

    /// Lies of lost bytes that are tried, shortest first; those of random ones may have as many gaps.
    private static let windowsMax = 8
    /// Bytes that are hashed for one run, about a second's: what a writer made needs a tenth of it at most.
    private static let effortMax = 4 << 30

    /// The run as it was when its parity was made; `nil` if that does not tell.
    static func restored(_ run: [UInt8], by parity: [UInt8], at position: Position) -> [UInt8]? {
        let damaged = run.withUnsafeBytes { DecodedRun.damagedSections($0, at: position) }
        guard parity.count == byteCount, let first = damaged.first?.range, let last = damaged.last?.range else { return nil }
        let difference = zip(run.withUnsafeBytes(folded), parity).map { $0 ^ $1 }
        // Of a header that is damaged nothing says what it should be, so that a try costs the whole run.
        let cost = damaged.reduce(0) { $0 + ($1.checksum == nil ? run.count : $1.range.count) }
        var effort = 0
        var bytes = run
        for window in windows(of: difference) {
            for start in stride(from: window.first, to: min(bytes.count, first.upperBound), by: byteCount) {
                let range = start..<min(start + window.count, bytes.count)
                guard range.upperBound > last.lowerBound else { continue }
                effort += cost
                if effort > effortMax { return nil }
                func change() { for place in range { bytes[place] ^= difference[place % byteCount] } }
                change()
                let isSound = bytes.withUnsafeBytes { bytes in
                    damaged.allSatisfy { $0.isSound(in: bytes, at: position) } && DecodedRun.isSound(bytes, at: position)
                }
                if isSound { return bytes }
                change()
            }
        }
        return nil
    }

    private static func folded(_ run: UnsafeRawBufferPointer) -> [UInt8] {
        var parity = [UInt8](repeating: 0, count: byteCount)
        parity.withUnsafeMutableBytes { parity in
            let whole = run.count - run.count % byteCount
            for start in stride(from: 0, to: whole, by: byteCount) {
                for place in stride(from: 0, to: byteCount, by: 8) {
                    let word = run.loadUnaligned(fromByteOffset: start + place, as: UInt64.self) ^ parity.load(fromByteOffset: place, as: UInt64.self)
                    parity.storeBytes(of: word, toByteOffset: place, as: UInt64.self)
                }
            }
            for place in whole..<run.count { parity[place - whole] ^= run[place] }
        }
        return parity
    }

    /// Of a disk, which loses them whole.
    private static let sectorBytes = 512

    /// Where all that differs lies in a row, as places of the parity; it may go round the parity's end. Where something differs all about, as many sectors of
    /// LMDB's file, where the run begins behind a page's header.
    private static func windows(of difference: [UInt8]) -> [(first: Int, count: Int)] {
        let places = difference.indices.filter { difference[$0] != 0 }
        guard let last = places.last else { return [] }
        // The longest gaps: all else lies between the end of one and its beginning.
        let befores = [last - byteCount] + places.dropLast()
        let gaps = zip(befores, places).map { (length: $1 - $0, end: $1) }.sorted { ($1.length, $0.end) < ($0.length, $1.end) }
        let sectors = [0] + stride(from: sectorBytes - PageLayout.headerBytes, to: byteCount, by: sectorBytes)
        let all = places.count == 1 ? [] : sectors.map { (first: $0, count: byteCount) }
        return gaps.prefix(windowsMax).map { (first: $0.end, count: byteCount + 1 - $0.length) } + all
    }
}
