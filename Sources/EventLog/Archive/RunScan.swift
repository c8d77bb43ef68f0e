/// Looks for runs without the tree that names them: by their headers on the first of their pages, and small ones in what was a leaf of that tree.
///
/// A header does not say at which position its run stands, but its checksum is seeded with it. What a node of any leaf names is looked at first: it tells both,
/// and of a run whose header is lost nothing else does. Of other headers those positions are tried that something names, and where the run behind one that was
/// found would stand.
struct RunScan {
    private struct Head {
        let place: ValuePlace
        let events: Int
        /// Through its checksum.
        let header: [UInt8]

        func isHeader(at position: Position) -> Bool { header.withUnsafeBytes { DecodedRun.Shape.isHeader($0, at: position) } }
    }

    private var heads: [Head] = []
    /// Runs that lie in leaves, which name them.
    private var inline: [Position: [ValuePlace]] = [:]
    /// Where leaves say that runs stand, and on which pages.
    private var named: [Position: [ValuePlace]] = [:]
    /// Bytes of headers that are hashed, some ten seconds': with so many runs lost that all would take minutes, some stay lost.
    private static let effortMax = 1 << 36
    /// No writer's run is larger.
    private static let runBytesMax = 1 << 30

    /// Reads the whole file.
    ///
    /// - Parameter taken: pages of runs that are known.
    init(_ file: borrowing DataFile, but taken: PageSet) {
        var (heads, inline, named) = ([Head](), [Position: [ValuePlace]](), [Position: [ValuePlace]]())
        let (pageBytes, pages) = (file.pageBytes, file.fileBytes / UInt64(file.pageBytes))
        file.forEachPage { page, bytes in
            if taken.contains(page) { return }
            for node in Self.leaf(page, bytes)?.allNodes ?? [] where node.keyBytes == 8 {
                let position = Archive.position(Array(node.key))
                if node.isChained {
                    let first = node.inlineValue.loadUnaligned(as: UInt64.self)
                    guard (2..<pages).contains(first), !taken.contains(first), node.valueBytes <= Self.runBytesMax else { continue }
                    let place = ValuePlace(inline: [], chain: first, byteCount: node.valueBytes, pageBytes: pageBytes)
                    if Self.isMostlyThere(place, pages) { named[position, default: []].append(place) }
                } else if let shape = DecodedRun.Shape(node.inlineValue) {
                    let place = ValuePlace(inline: Array(node.inlineValue), chain: nil, byteCount: node.valueBytes, pageBytes: pageBytes)
                    let header = place.inline[..<shape.headerBytes]
                    if header.withUnsafeBytes({ DecodedRun.Shape.isHeader($0, at: position) }) {
                        inline[position, default: []].append(place)
                    } else {
                        heads.append(Head(place: place, events: shape.events, header: Array(header)))
                    }
                }
            }
            let content = UnsafeRawBufferPointer(rebasing: bytes[PageLayout.headerBytes...])
            guard let shape = DecodedRun.Shape(content), shape.byteCount <= Self.runBytesMax else { return }
            let place = ValuePlace(inline: [], chain: page, byteCount: shape.byteCount, pageBytes: pageBytes)
            guard Self.isMostlyThere(place, pages) else { return }
            heads.append(Head(place: place, events: shape.events, header: Array(content[..<shape.headerBytes])))
        }
        (self.heads, self.inline, self.named) = (heads, inline, named)
    }

    /// Of a file that was cut what is left may do. A size that is damaged must not have us make room for what was never there.
    private static func isMostlyThere(_ place: ValuePlace, _ pages: UInt64) -> Bool {
        UInt64(place.pages.count) / 2 <= pages - place.pages.lowerBound
    }

    /// A page that may be a leaf: its number or its kind says so, if not both.
    private static func leaf(_ number: UInt64, _ bytes: UnsafeRawBufferPointer) -> Page? {
        guard let base = bytes.baseAddress else { return nil }
        let isLeaf = base.loadUnaligned(fromByteOffset: 10, as: UInt16.self) == PageLayout.leafFlag
        guard isLeaf || base.loadUnaligned(as: UInt64.self) == number else { return nil }
        return Page(leaf: base, number: number, pageBytes: bytes.count) ?? Page(damagedLeaf: base, number: number, pageBytes: bytes.count)
    }

    /// - Parameter candidates: where runs may stand.
    /// - Returns: for each position all that has its header: what was let go may still lie there; and where none has it, what a leaf names. Whether all was tried.
    func places(among candidates: Set<Position>) -> (places: [Position: [ValuePlace]], isWhole: Bool) {
        var (found, unproved) = (inline, [Position: [ValuePlace]]())
        // Others no store reaches.
        var candidates = candidates.union(named.keys).filter { 1..<1 << 62 ~= $0 }
        for (position, places) in inline {
            for shape in places.compactMap({ $0.inline.withUnsafeBytes { DecodedRun.Shape($0) } }) { candidates.insert(position + Position(shape.events)) }
        }
        let pages = [UInt64: Head](heads.compactMap { head in head.place.chain.map { ($0, head) } }, uniquingKeysWith: { first, _ in first })
        var known: Set<UInt64> = []
        for (position, places) in named {
            for place in places {
                let page = place.pages.lowerBound
                if let head = pages[page], head.place.byteCount == place.byteCount, head.isHeader(at: position) {
                    // Others may name it too.
                    guard known.insert(page).inserted else { continue }
                    found[position, default: []].append(place)
                    candidates.insert(position + Position(head.events))
                } else if unproved[position]?.contains(where: { $0.pages == place.pages && $0.byteCount == place.byteCount }) != true {
                    unproved[position, default: []].append(place)
                }
            }
        }
        var heads = heads.filter { head in head.place.chain.map { !known.contains($0) } ?? true }
        var waiting = candidates.sorted(by: >), effort = 0
        var cost = heads.reduce(0) { $0 + $1.header.count + 64 }
        while let position = waiting.popLast(), !heads.isEmpty {
            effort += cost
            guard effort < Self.effortMax else { break }
            for index in heads.indices.reversed() where heads[index].isHeader(at: position) {
                let head = heads.remove(at: index)
                cost -= head.header.count + 64
                found[position, default: []].append(head.place)
                let next = position + Position(head.events)
                if candidates.insert(next).inserted { waiting.append(next) }
            }
        }
        return (found.merging(unproved) { proved, _ in proved }, effort < Self.effortMax)
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
