/// Which pages were met: a bitmap whose parts come into being as they are needed, as a damaged file may claim any number of pages.
struct PageSet {
    private static let partPages: UInt64 = 1 << 15
    private var parts: [[UInt64]]
    private(set) var count: UInt64 = 0

    /// For pages 0...lastPage; the caller bounds `lastPage`.
    init(lastPage: UInt64) {
        parts = Array(repeating: [], count: Int(lastPage / Self.partPages) + 1)
    }

    /// False if it was there already.
    mutating func insert(_ page: UInt64) -> Bool {
        let part = Int(page / Self.partPages)
        let word = Int(page % Self.partPages / 64)
        let bit: UInt64 = 1 << (page % 64)
        if parts[part].isEmpty { parts[part] = Array(repeating: 0, count: Int(Self.partPages / 64)) }
        guard parts[part][word] & bit == 0 else { return false }
        parts[part][word] |= bit
        count += 1
        return true
    }

    func contains(_ page: UInt64) -> Bool {
        let part = parts[Int(page / Self.partPages)]
        return !part.isEmpty && part[Int(page % Self.partPages / 64)] & (1 << (page % 64)) != 0
    }
}
