/// What LMDB keeps of one database (`MDB_db`, 48 bytes): in the meta page for the free list and the main one, else as a value of the main one.
struct TreeRecord: Equatable {
    static let byteCount = 48
    static let noRoot = UInt64.max
    /// LMDB's cursors hold no more levels.
    static let depthMax = 32

    let pad: UInt32
    let flags: UInt16
    let depth: UInt16
    let branchPages: UInt64
    let leafPages: UInt64
    let overflowPages: UInt64
    let entries: UInt64
    let root: UInt64

    init(_ bytes: UnsafeRawPointer) {
        pad = bytes.loadUnaligned(as: UInt32.self)
        flags = bytes.loadUnaligned(fromByteOffset: 4, as: UInt16.self)
        depth = bytes.loadUnaligned(fromByteOffset: 6, as: UInt16.self)
        branchPages = bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        leafPages = bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self)
        overflowPages = bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self)
        entries = bytes.loadUnaligned(fromByteOffset: 32, as: UInt64.self)
        root = bytes.loadUnaligned(fromByteOffset: 40, as: UInt64.self)
    }

    /// A tree of one leaf page.
    init(leaf root: UInt64, entries: UInt64) {
        (pad, flags, depth, branchPages, leafPages, overflowPages) = (0, 0, 1, 0, 1, 0)
        (self.entries, self.root) = (entries, root)
    }

    var isEmpty: Bool { root == Self.noRoot }

    /// What is wrong with it by itself, before its pages are looked at; nil if nothing. `pad` and `flags` have another meaning in each place.
    func fault(lastPage: UInt64) -> String? {
        if isEmpty {
            let isClear = depth == 0 && branchPages == 0 && leafPages == 0 && overflowPages == 0 && entries == 0
            return isClear ? nil : "it has no root page, yet depth \(depth) and \(entries) entries"
        }
        guard (2...max(2, lastPage)).contains(root), lastPage >= 2 else { return "its root page \(root) is out of range" }
        guard (1...Self.depthMax).contains(Int(depth)) else { return "its depth is \(depth)" }
        guard (depth == 1) == (branchPages == 0) else { return "its depth is \(depth) with \(branchPages) branch pages" }
        guard max(branchPages, leafPages, overflowPages) < lastPage, branchPages + leafPages + overflowPages < lastPage else {
            return "it counts more pages than there are"
        }
        guard leafPages >= 1, entries >= leafPages else { return "it counts \(entries) entries on \(leafPages) leaf pages" }
        return nil
    }
}
