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
        let offset = Int(base.loadUnaligned(fromByteOffset: PageLayout.headerBytes + 2 * index, as: UInt16.self))
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
