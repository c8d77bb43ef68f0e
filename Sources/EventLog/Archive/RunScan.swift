/// Looks for runs without the tree that names them: by their headers on the first of their pages, and small ones in what was a leaf of that tree.
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
    /// Runs that lie in leaves, which name them.
    private var inline: [Position: [ValuePlace]] = [:]
    /// Where leaves say that runs stand.
    private var told: Set<Position> = []
    /// Bytes of headers that are hashed, some ten seconds': with so many runs lost that all would take minutes, some stay lost.
    private static let effortMax = 1 << 36
    /// No writer's run is larger.
    private static let runBytesMax = 1 << 30

    /// Reads the whole file.
    ///
    /// - Parameter taken: pages of runs that are known.
    init(_ file: borrowing DataFile, but taken: PageSet) {
        var (heads, inline, told) = ([Head](), [Position: [ValuePlace]](), Set<Position>())
        let (pageBytes, pages) = (file.pageBytes, file.fileBytes / UInt64(file.pageBytes))
        file.forEachPage { page, bytes in
            if taken.contains(page) { return }
            for node in Self.leaf(page, bytes)?.allNodes ?? [] where node.keyBytes == 8 {
                let position = Archive.position(Array(node.key))
                if node.isChained {
                    told.insert(position)
                } else if let shape = DecodedRun.Shape(node.inlineValue),
                    DecodedRun.Shape.isHeader(UnsafeRawBufferPointer(rebasing: node.inlineValue.prefix(shape.headerBytes)), at: position)
                {
                    inline[position, default: []].append(
                        ValuePlace(inline: Array(node.inlineValue), chain: nil, byteCount: node.valueBytes, pageBytes: pageBytes))
                }
            }
            let content = UnsafeRawBufferPointer(rebasing: bytes[PageLayout.headerBytes...])
            guard let shape = DecodedRun.Shape(content), shape.byteCount <= Self.runBytesMax else { return }
            let place = ValuePlace(inline: [], chain: page, byteCount: shape.byteCount, pageBytes: pageBytes)
            guard place.pages.upperBound <= pages else { return }
            heads.append(Head(place: place, events: shape.events, header: Array(content[..<shape.headerBytes])))
        }
        (self.heads, self.inline, self.told) = (heads, inline, told)
    }

    /// A page that may be a leaf: its number or its kind says so, if not both.
    private static func leaf(_ number: UInt64, _ bytes: UnsafeRawBufferPointer) -> Page? {
        guard let base = bytes.baseAddress else { return nil }
        let isLeaf = base.loadUnaligned(fromByteOffset: 10, as: UInt16.self) == PageLayout.leafFlag
        guard isLeaf || base.loadUnaligned(as: UInt64.self) == number else { return nil }
        return Page(leaf: base, number: number, pageBytes: bytes.count) ?? Page(damagedLeaf: base, number: number, pageBytes: bytes.count)
    }

    /// - Parameter candidates: where runs may stand.
    /// - Returns: for each position all that has its header: what was let go may still lie there.
    func places(among candidates: Set<Position>) -> [Position: [ValuePlace]] {
        var found = inline
        // Others no store reaches.
        var (candidates, heads) = (candidates.union(told).filter { 1..<1 << 62 ~= $0 }, heads)
        for (position, places) in inline {
            for shape in places.compactMap({ $0.inline.withUnsafeBytes { DecodedRun.Shape($0) } }) { candidates.insert(position + Position(shape.events)) }
        }
        var waiting = candidates.sorted(by: >), effort = 0
        var cost = heads.reduce(0) { $0 + $1.header.count + 64 }
        while let position = waiting.popLast() {
            effort += cost
            guard effort < Self.effortMax else { break }
            for index in heads.indices.reversed() where heads[index].header.withUnsafeBytes({ DecodedRun.Shape.isHeader($0, at: position) }) {
                let head = heads.remove(at: index)
                cost -= head.header.count + 64
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
            guard 1..<1 << 62 ~= position else { return false }
            let end = bytes.count - checksumBytes
            return bytes.loadUnaligned(fromByteOffset: end, as: UInt64.self).littleEndian
                == XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[..<end]), seed: position)
        }
    }
}
