/// A branch or leaf page in a buffer, whose header was found right: `count` offsets lie within it.
struct Page {
    let number: UInt64
    let base: UnsafeRawPointer
    let pageBytes: Int
    let isLeaf: Bool
    let upper: Int
    let count: Int

    /// A node that lies wholly within its page; nil if it does not, or breaks a rule of its kind.
    func node(at index: Int) -> Node? {
        node(atOffset: Int(base.loadUnaligned(fromByteOffset: PageLayout.headerBytes + 2 * index, as: UInt16.self)))
    }

    fileprivate func node(atOffset offset: Int) -> Node? {
        guard offset >= upper, offset & 1 == 0, offset + PageLayout.nodeHeaderBytes <= pageBytes else { return nil }
        let low = base.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
        let flags = base.loadUnaligned(fromByteOffset: offset + 4, as: UInt16.self)
        let keyBytes = Int(base.loadUnaligned(fromByteOffset: offset + 6, as: UInt16.self))
        guard keyBytes <= PageLayout.keyBytesMax else { return nil }
        var bytes = PageLayout.nodeHeaderBytes + keyBytes
        if isLeaf {
            guard keyBytes > 0, flags <= PageLayout.databaseNode else { return nil }
            bytes += flags == PageLayout.chainedNode ? 8 : Int(low)
            guard bytes <= PageLayout.nodeBytesMax(pageBytes: pageBytes) else { return nil }
        }
        bytes = (bytes + 1) & -2
        guard offset + bytes <= pageBytes else { return nil }
        return Node(base: base + offset, offset: offset, byteCount: bytes, low: low, flags: flags, keyBytes: keyBytes)
    }
}

extension Page {
    /// A leaf page that has one node at least; nil if its bounds are wrong.
    init?(leaf base: UnsafeRawPointer, number: UInt64, pageBytes: Int) {
        let lower = Int(base.loadUnaligned(fromByteOffset: 12, as: UInt16.self))
        let upper = Int(base.loadUnaligned(fromByteOffset: 14, as: UInt16.self))
        guard lower >= PageLayout.headerBytes + 2, lower <= upper, upper <= pageBytes else { return nil }
        self.init(number: number, base: base, pageBytes: pageBytes, isLeaf: true, upper: upper, count: (lower - PageLayout.headerBytes) / 2)
    }
}

extension Page {
    private var lower: Int { PageLayout.headerBytes + 2 * count }

    /// Of a leaf page that may be damaged: what its offsets lead to, each place once, wherever its nodes are said to begin; and, as nodes lie one behind the
    /// other up to the page's end, those that no offset leads to any more. The room before them holds what was deleted: a row of nodes counts only if it ends
    /// where it must, and has as many as there are offsets, or the offsets of all of them stand there behind a count that is too small.
    var allNodes: [Node] {
        var found: [Int: Node] = [:]
        let anywhere = Page(number: number, base: base, pageBytes: pageBytes, isLeaf: true, upper: lower, count: count)
        for node in (0..<count).compactMap({ anywhere.node(at: $0) }) { found[node.offset] = node }
        if let row, row.count == count || count == 0 || isListed(row) { for node in row { found[node.offset] = node } }
        return found.values.sorted { $0.offset < $1.offset }
    }

    /// Whether what lies from `upper` to the page's end are as many nodes of a leaf as it counts.
    var isLeafRow: Bool { count > 0 && lower <= upper && row?.count == count }

    /// The nodes that lie one behind the other from `upper` on; `nil`: they do not end where the page does.
    private var row: [Node]? {
        var row: [Node] = []
        var offset = upper
        while offset < pageBytes, let node = node(atOffset: offset) {
            row.append(node)
            offset += node.byteCount
        }
        return offset == pageBytes ? row : nil
    }

    /// Whether just these nodes' offsets stand where a page with so many has them.
    private func isListed(_ row: [Node]) -> Bool {
        guard row.count > count, PageLayout.headerBytes + 2 * row.count <= row[0].offset else { return false }
        let places = (0..<row.count).map { Int(base.loadUnaligned(fromByteOffset: PageLayout.headerBytes + 2 * $0, as: UInt16.self)) }
        return places.sorted() == row.map(\.offset)
    }

    /// A leaf page of whose bounds one is damaged. Without the upper one nodes may lie anywhere, without the lower one there are no offsets; `nil`: neither is
    /// right.
    init?(damagedLeaf base: UnsafeRawPointer, number: UInt64, pageBytes: Int) {
        let lower = Int(base.loadUnaligned(fromByteOffset: 12, as: UInt16.self))
        let upper = Int(base.loadUnaligned(fromByteOffset: 14, as: UInt16.self))
        let range = PageLayout.headerBytes + 2...pageBytes
        // A page's first offset is that of its first key, whose node may lie anywhere: it is no bound. What the other bound leaves out tells which one is right.
        let isLowerRight = range.contains(lower) && lower & 1 == 0
        let isUpperRight = range.contains(upper) && upper & 1 == 0
        guard isLowerRight || isUpperRight else { return nil }
        if isUpperRight, Page(number: number, base: base, pageBytes: pageBytes, isLeaf: true, upper: upper, count: 0).isRow {
            self.init(number: number, base: base, pageBytes: pageBytes, isLeaf: true, upper: upper, count: 0)
        } else if isLowerRight {
            self.init(
                number: number, base: base, pageBytes: pageBytes, isLeaf: true, upper: lower, count: (lower - PageLayout.headerBytes) / 2)
        } else {
            return nil
        }
    }

    private var isRow: Bool { !allNodes.isEmpty }
}

struct Node {
    let base: UnsafeRawPointer
    let offset: Int
    /// With the byte that keeps the next one even.
    let byteCount: Int
    let low: UInt32
    let flags: UInt16
    let keyBytes: Int

    var key: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base + PageLayout.nodeHeaderBytes, count: keyBytes) }
    /// Of a branch page's node, which has no flags.
    var child: UInt64 { UInt64(low) | UInt64(flags) << 32 }
    /// Of a leaf page's node.
    var valueBytes: Int { Int(low) }
    var isChained: Bool { flags == PageLayout.chainedNode }
    var inlineValue: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + PageLayout.nodeHeaderBytes + keyBytes, count: isChained ? 8 : valueBytes)
    }
}
