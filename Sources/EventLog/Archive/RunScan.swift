/// Looks for runs without the tree that names them, by their headers on the first of their pages.
///
/// A header does not say at which position its run stands, but its checksum is seeded with it: those that something names are tried, and where the run behind
/// one that was found would stand.
struct RunScan {
    private struct Head {
        let place: ValuePlace
        let events: Int
        /// Through its checksum.
        let header: [UInt8]
    }

    private var heads: [Head] = []
    /// Of headers against positions: with so many runs lost that all would take minutes, some stay lost.
    private static let triesMax = 1 << 28

    /// Reads the whole file.
    ///
    /// - Parameter named: first pages of runs that are known.
    init(_ file: borrowing DataFile, but named: Set<UInt64>) {
        var heads: [Head] = []
        let (pageBytes, pages) = (file.pageBytes, file.fileBytes / UInt64(file.pageBytes))
        file.forEachContent { page, content in
            guard let shape = DecodedRun.Shape(content), !named.contains(page) else { return }
            let place = ValuePlace(inline: [], chain: page, byteCount: shape.byteCount, pageBytes: pageBytes)
            guard place.pages.upperBound <= pages else { return }
            heads.append(Head(place: place, events: shape.events, header: Array(content[..<shape.headerBytes])))
        }
        self.heads = heads
    }

    /// - Parameter candidates: where runs may stand.
    /// - Returns: for each position all that has its header, the last of the file first: what was let go may still lie there.
    func places(among candidates: Set<Position>) -> [Position: [ValuePlace]] {
        var found: [Position: [ValuePlace]] = [:]
        // Others no store reaches.
        var (candidates, heads) = (candidates.filter { 1..<1 << 62 ~= $0 }, heads)
        var waiting = candidates.sorted(by: >), tries = 0
        while let position = waiting.popLast() {
            tries += heads.count
            guard tries < Self.triesMax else { break }
            for index in heads.indices.reversed() where heads[index].header.withUnsafeBytes({ DecodedRun.Shape.isHeader($0, at: position) }) {
                let head = heads.remove(at: index)
                found[position, default: []].append(head.place)
                let next = position + Position(head.events)
                if candidates.insert(next).inserted { waiting.append(next) }
            }
        }
        return found
    }
}

extension DecodedRun {
    /// What the first page of a run's bytes says of how much there is of it, if its header lies there whole. Unchecked.
    struct Shape {
        let events: Int
        let headerBytes: Int
        let byteCount: Int

        private static let fixedBytes = 48
        private static let checksumBytes = 8

        init?(_ bytes: UnsafeRawBufferPointer) {
            func word(_ offset: Int) -> Int { Int(bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self).littleEndian) }
            guard bytes.count >= Self.fixedBytes + Self.checksumBytes, word(0) == Int(RunEncoder.magic), word(4) == 0 else { return nil }
            let frames = word(28), end = Self.fixedBytes + frames * 16 + Self.checksumBytes
            guard end <= bytes.count else { return nil }
            events = word(8)
            headerBytes = end
            byteCount = (0..<frames).reduce(end + word(16) + word(20)) { $0 + word(Self.fixedBytes + $1 * 16) }
        }

        /// Whether these are a header's bytes, of a run at a position.
        static func isHeader(_ bytes: UnsafeRawBufferPointer, at position: Position) -> Bool {
            let end = bytes.count - checksumBytes
            return bytes.loadUnaligned(fromByteOffset: end, as: UInt64.self).littleEndian
                == XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[..<end]), seed: position)
        }
    }
}
