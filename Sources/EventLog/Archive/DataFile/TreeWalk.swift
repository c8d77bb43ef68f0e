/// Walks one database's pages in key order with an explicit stack, and judges each page that it meets.
///
/// What is damaged is noted and passed over: the rest is walked. No page is entered twice, so each walk ends; memory is one page a level.
final class TreeWalk {
    struct Counts {
        var pages = DataFileReport.PageCounts()
        var entries: UInt64 = 0
    }

    /// A leaf page's node. Its bytes live until the next one is visited.
    struct Entry {
        let page: UInt64
        let node: Node
        /// The first overflow page, if the value lies there; it was found right.
        let chain: UInt64?
    }

    /// A branch page whose children are being walked, and the bounds of its keys: `from` (included) to `to`. They lie in pages further up.
    private struct Level {
        let page: Page
        var next = 0
        let from: UnsafeRawBufferPointer?
        let to: UnsafeRawBufferPointer?
    }

    let reader: PageReader
    let pageBytes: Int
    let lastPage: UInt64
    let fileBytes: UInt64
    var problems = DataFileProblems()
    /// Reads what it can of a damaged page that the tree leads to; whoever asks for that judges each record by a checksum.
    var isLenient = false
    /// Lends also values of which the first page's header is damaged; whoever asks for that judges each by checksums.
    var lendsDamagedChains = false
    /// First pages of values' chains of which the header is taken for what the node that names them says it should be.
    var assumed: Set<UInt64> = []
    /// Those of which the header is damaged, or tells of more pages than the value needs.
    private(set) var doubtful: [DataFileReport.Chain] = []
    private(set) var met: PageSet
    private(set) var counts = Counts()

    private var order = KeyOrder.bytes
    private var isFreeList = false
    private var levels: [Level] = []
    /// A page for each level, then the table of node sizes.
    private let slab: UnsafeMutableRawPointer

    convenience init(reader: PageReader, meta: Meta, pageBytes: Int, fileBytes: UInt64) {
        self.init(reader: reader, lastPage: meta.lastPage, pageBytes: pageBytes, fileBytes: fileBytes)
    }

    init(reader: PageReader, lastPage: UInt64, pageBytes: Int, fileBytes: UInt64) {
        self.reader = reader
        self.pageBytes = pageBytes
        self.lastPage = lastPage
        self.fileBytes = fileBytes
        met = PageSet(lastPage: lastPage)
        slab = .allocate(byteCount: (TreeRecord.depthMax + 1) * pageBytes, alignment: 4096)
    }

    deinit { slab.deallocate() }

    /// Visits each sound entry whose key is not before `start`, until `visit` returns false. `counts` holds what was met.
    func walk(
        _ tree: TreeRecord,
        order: KeyOrder = .bytes,
        isFreeList: Bool = false,
        from start: UnsafeRawBufferPointer? = nil,
        stopsWhenFull: Bool = false,
        _ visit: (Entry) throws -> Bool
    ) rethrows {
        self.order = order
        self.isFreeList = isFreeList
        counts = Counts()
        levels.removeAll(keepingCapacity: true)
        guard !tree.isEmpty else { return }
        let wantsMore = try enter(tree.root, from: nil, to: nil, referrer: 0, depth: tree.depth, start: start, visit)
        if !wantsMore { return }
        while let top = levels.last {
            guard top.next < top.page.count, !(stopsWhenFull && problems.isFull) else {
                levels.removeLast()
                continue
            }
            levels[levels.count - 1].next += 1
            // What is wrong with a node was noted as its page was entered.
            guard let node = top.page.node(at: top.next) else { continue }
            let from = top.next == 0 ? top.from : usable(node.key)
            let following = top.next + 1 < top.page.count ? top.page.node(at: top.next + 1).flatMap { usable($0.key) } : nil
            let to = top.next + 1 < top.page.count ? following : top.to
            if let start, let to, !order.isAscending(start, to) { continue }
            let wantsMore = try enter(node.child, from: from, to: to, referrer: top.page.number, depth: tree.depth, start: start, visit)
            if !wantsMore { return }
        }
    }

    /// Keys that can be compared.
    private func usable(_ key: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        isFreeList ? (key.count == 8 ? key : nil) : (key.isEmpty ? nil : key)
    }

    /// Reads and judges one page: a branch is pushed, a leaf's entries are visited. False if the visitor wants no more.
    private func enter(
        _ number: UInt64,
        from: UnsafeRawBufferPointer?,
        to: UnsafeRawBufferPointer?,
        referrer: UInt64,
        depth: UInt16,
        start: UnsafeRawBufferPointer?,
        _ visit: (Entry) throws -> Bool
    ) rethrows -> Bool {
        guard levels.count < TreeRecord.depthMax else {
            problems.add(.depth, page: number, "more than \(TreeRecord.depthMax) levels")
            return true
        }
        guard claim(number, count: 1, referrer: referrer) else { return true }
        let buffer = slab + levels.count * pageBytes
        if let failure = reader.read(pageBytes, at: number * UInt64(pageBytes), into: buffer) {
            problems.add(.unreadable, page: number, failure.description)
            return true
        }
        guard let page = page(number, in: UnsafeRawPointer(buffer), expectsLeaf: levels.count + 1 == depth) else { return true }
        if page.isLeaf != (levels.count + 1 == depth) {
            problems.add(.depth, page: number, "a \(page.isLeaf ? "leaf" : "branch") at level \(levels.count + 1) of \(depth)")
        }
        judgeNodes(of: page, from: from, to: to)
        guard page.isLeaf else {
            counts.pages.branch += 1
            levels.append(Level(page: page, from: from, to: to))
            return true
        }
        counts.pages.leaf += 1
        let found = isLenient ? page.allNodes : nil
        for index in 0..<(found?.count ?? page.count) {
            guard let node = found?[index] ?? page.node(at: index), let key = usable(node.key) else { continue }
            counts.entries += 1
            if let start, order.isAscending(key, start) { continue }
            var chain: UInt64?
            if node.isChained {
                chain = judgeChain(node, on: number)
                if chain == nil { continue }
            }
            guard try visit(Entry(page: number, node: node, chain: chain)) else { return false }
        }
        return true
    }

    /// Notes that pages are in use; false if they cannot be, or already are.
    private func claim(_ first: UInt64, count: UInt64, referrer: UInt64) -> Bool {
        isInside(first, count: count, referrer: referrer) && mark(first, count: count, referrer: referrer)
    }

    /// Whether there are such pages.
    private func isInside(_ first: UInt64, count: UInt64, referrer: UInt64) -> Bool {
        guard first >= 2, first <= lastPage, count - 1 <= lastPage - first else {
            problems.add(.pageOutOfRange, page: first, "\(count) pages, named by page \(referrer), the last being \(lastPage)")
            return false
        }
        guard first + count <= fileBytes / UInt64(pageBytes) else {
            problems.add(.fileTooShort, page: first, "\(count) pages are in use from here, the file has \(fileBytes) bytes")
            return false
        }
        return true
    }

    private func mark(_ first: UInt64, count: UInt64, referrer: UInt64) -> Bool {
        for page in first..<(first + count) where !met.insert(page) {
            problems.add(.pageUsedTwice, page: page, "the second use is by page \(referrer)")
            return false
        }
        return true
    }

    /// Notes that a page is free. The file need not reach it.
    func markFree(_ page: UInt64, listedBy referrer: UInt64) {
        _ = mark(page, count: 1, referrer: referrer)
    }
}

// Pages, one by one.
extension TreeWalk {
    /// The free list's last key, the newest transaction that let pages go, in a snapshot that is not being walked; nil if there is none,
    /// or the way there is damaged.
    func lastFreeingTransaction(_ freeList: TreeRecord) -> UInt64? {
        isFreeList = true
        var number = freeList.root
        for _ in 0..<min(Int(freeList.depth), TreeRecord.depthMax) {
            guard (2...max(2, lastPage)).contains(number), reader.read(pageBytes, at: number * UInt64(pageBytes), into: slab) == nil,
                let page = page(number, in: UnsafeRawPointer(slab)), let node = page.node(at: page.count - 1)
            else { return nil }
            if page.isLeaf { return usable(node.key)?.loadUnaligned(as: UInt64.self) }
            number = node.child
        }
        return nil
    }

    /// The page, if its header is right.
    ///
    /// - Parameter expectsLeaf: what it must be by its place, if it does not tell itself.
    private func page(_ number: UInt64, in base: UnsafeRawPointer, expectsLeaf: Bool = false) -> Page? {
        let found = base.loadUnaligned(as: UInt64.self)
        if found != number {
            problems.add(.pageNumber, page: number, "it says that it is \(found)")
            if !isLenient { return nil }
        }
        let flags = base.loadUnaligned(fromByteOffset: 10, as: UInt16.self)
        let isKnown = flags == PageLayout.branchFlag || flags == PageLayout.leafFlag
        if !isKnown {
            problems.add(.pageKind, page: number, "flags \(flags) where a branch or leaf belongs")
            if !isLenient { return nil }
        }
        let lower = Int(base.loadUnaligned(fromByteOffset: 12, as: UInt16.self))
        let upper = Int(base.loadUnaligned(fromByteOffset: 14, as: UInt16.self))
        let count = (lower - PageLayout.headerBytes) / 2
        var isLeaf = isKnown ? flags == PageLayout.leafFlag : expectsLeaf
        // One that says that it is something else than its place tells: its nodes decide, as either may be damaged.
        if isLenient, isLeaf != expectsLeaf {
            isLeaf = Page(number: number, base: base, pageBytes: pageBytes, isLeaf: true, upper: upper, count: count).isLeafRow
        }
        // LMDB itself may leave one child on a branch page of the free list.
        let countMin = isLeaf || isFreeList ? 1 : 2
        guard lower & 1 == 0, upper & 1 == 0, lower <= upper, upper <= pageBytes, count >= countMin else {
            problems.add(.pageBounds, page: number, "free space from \(lower) to \(upper)")
            return isLenient && isLeaf ? Page(damagedLeaf: base, number: number, pageBytes: pageBytes) : nil
        }
        return Page(number: number, base: base, pageBytes: pageBytes, isLeaf: isLeaf, upper: upper, count: count)
    }

    /// The nodes lie within the page, fill it from `upper` to its end without gap or overlap, and ascend within the bounds.
    private func judgeNodes(of page: Page, from: UnsafeRawBufferPointer?, to: UnsafeRawBufferPointer?) {
        let table = slab + TreeRecord.depthMax * pageBytes
        let sizes = UnsafeMutableBufferPointer(start: table.assumingMemoryBound(to: UInt16.self), count: pageBytes / 2)
        sizes.update(repeating: 0)
        var previous = from
        var nodesFound = 0
        for index in 0..<page.count {
            guard let node = page.node(at: index) else {
                problems.add(.node, page: page.number, "node \(index) of \(page.count) is out of bounds")
                continue
            }
            sizes[node.offset / 2] = UInt16(node.byteCount)
            nodesFound += 1
            if !page.isLeaf && index == 0 { continue }  // LMDB does not read the first key of a branch page.
            guard let key = usable(node.key) else {
                problems.add(.node, page: page.number, "node \(index) has a key of \(node.keyBytes) bytes")
                continue
            }
            if let previous {
                // The first key of a leaf may equal the bound that its parent holds; else keys differ.
                let isOrdered = page.isLeaf && index == 0 ? !order.isAscending(key, previous) : order.isAscending(previous, key)
                if !isOrdered { problems.add(.keyOrder, page: page.number, "key \(index) of \(page.count) is not after the one before") }
            }
            previous = key
        }
        if let to, let previous, !order.isAscending(previous, to) {
            problems.add(.keyOrder, page: page.number, "its last key is not before the next page's")
        }
        guard nodesFound == page.count else { return }
        var offset = page.upper
        var nodesPassed = 0
        while offset < pageBytes, sizes[offset / 2] > 0 {
            offset += Int(sizes[offset / 2])
            nodesPassed += 1
        }
        if offset != pageBytes || nodesPassed != page.count {
            problems.add(.node, page: page.number, "nodes overlap, or leave a gap, at \(offset)")
        }
    }

    /// The first page of a value's overflow pages, if their header is right and they are there.
    private func judgeChain(_ node: Node, on referrer: UInt64) -> UInt64? {
        let first = node.inlineValue.loadUnaligned(as: UInt64.self)
        // What is lent in spite of damage takes no page from others: what names it may be wrong too.
        guard lendsDamagedChains ? isInside(first, count: 1, referrer: referrer) : claim(first, count: 1, referrer: referrer) else { return nil }
        let needed = PageLayout.chainPages(valueBytes: node.valueBytes, pageBytes: pageBytes)
        // A value that shrank in the transaction that wrote it keeps all its pages.
        let (count, fault) = assumed.contains(first) ? (needed, nil) : judgeHeader(of: first, needed: needed)
        if let fault { problems.add(fault.kind, page: first, fault.detail) }
        if fault?.kind != .unreadable, fault != nil || count > needed {
            doubtful.append(DataFileReport.Chain(page: first, pages: UInt32(needed), isDamaged: fault != nil))
        }
        if lendsDamagedChains { return isInside(first, count: needed, referrer: referrer) ? first : nil }
        if fault != nil { return nil }
        guard count == 1 || claim(first + 1, count: count - 1, referrer: referrer) else { return nil }
        counts.pages.overflow += count
        return first
    }

    /// How many pages the header of a value's first page tells of, and what is wrong with it.
    private func judgeHeader(of first: UInt64, needed: UInt64) -> (count: UInt64, fault: (kind: DataFileProblem.Kind, detail: String)?) {
        withUnsafeTemporaryAllocation(byteCount: PageLayout.headerBytes, alignment: 8) { buffer in
            let header = UnsafeRawPointer(buffer.baseAddress!)
            if let failure = reader.read(PageLayout.headerBytes, at: first * UInt64(pageBytes), into: buffer.baseAddress!) {
                return (needed, (.unreadable, failure.description))
            }
            let count = UInt64(header.loadUnaligned(fromByteOffset: 12, as: UInt32.self))
            let found = header.loadUnaligned(as: UInt64.self)
            let flags = header.loadUnaligned(fromByteOffset: 10, as: UInt16.self)
            if found != first { return (count, (.pageNumber, "it says that it is \(found)")) }
            if flags != PageLayout.overflowFlag { return (count, (.pageKind, "flags \(flags) where overflow pages begin")) }
            return (count, count < needed ? (.overflow, "\(count) pages for a value that needs \(needed)") : nil)
        }
    }
}
