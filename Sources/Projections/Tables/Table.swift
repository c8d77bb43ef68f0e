internal import EventLog

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A projection's rows of one type: reads see memory over the archive, writes stay in memory until a flush writes them in key order.
///
/// Changed by one thread at a time, with the store's fold lock held for writing; read by any number of threads, with it held for reading.
/// `@unchecked Sendable`: a shard's rows are touched with its lock held, which readers need among themselves, as they bring rows in.
/// `@exclusivity(unchecked)`: these locks exclude others, and no closure runs while a property changes: a row's box is taken out before it is lent.
public final class Table<Key: TableKey, Row: TableRow>: @unchecked Sendable {
    /// A row that readers and a flush may hold while a new one takes its place. Changed only by the one who folds, and only while nobody else has it.
    ///
    /// The row lies in the object, so that a reader waits for memory once; and it is lent by its place, as a property of a class would be copied, with
    /// all that it refers to.
    ///
    /// Its header says whether it was asked for since it was last looked at by who forgets rows. Touched with the shard's lock held, or by the one who folds
    /// while no reader is let in.
    final class Box: ManagedBuffer<Bool, Row?> {
        static func holding(_ row: consuming Row?, wasUsed: Bool) -> Box {
            let box = unsafeDowncast(Box.create(minimumCapacity: 1) { _ in wasUsed }, to: Box.self)
            let memory = box.withUnsafeMutablePointerToElements { $0 }
            memory.initialize(to: row)
            return box
        }

        deinit { _ = withUnsafeMutablePointerToElements { $0.deinitialize(count: 1) } }

        var row: Row? { withUnsafeMutablePointerToElements { $0.pointee } }
        var place: UnsafeMutablePointer<Row?> { withUnsafeMutablePointerToElements { $0 } }

        func lend<R>(_ body: (UnsafePointer<Row>) throws -> R) rethrows -> R? {
            try withUnsafeMutablePointerToElements { memory in
                if case .none = memory.pointee { return nil }
                // An optional's value lies where the optional does (Swift's ABI, TypeLayout, "Single-Payload Enums").
                return try body(UnsafeRawPointer(memory).assumingMemoryBound(to: Row.self))
            }
        }

        /// Where it lies: taken out and put back it would be copied.
        @inline(__always) func edit<R>(_ body: (inout Row?) throws -> R) rethrows -> R {
            try withUnsafeMutablePointerToElements { try body(&$0.pointee) }
        }
    }

    private struct Entry {
        private(set) var box: Box
        /// Where the box has its row: to be fetched from memory, and changed, without counting references.
        private(set) var row: UnsafeMutablePointer<Row?>
        /// The epoch in which it changed last; 0 once the archive has it.
        var epoch: UInt64
        var bytes: Int32

        init(box: Box, epoch: UInt64, bytes: Int32) {
            self.box = box
            row = box.place
            self.epoch = epoch
            self.bytes = bytes
        }

        mutating func replaceBox(_ new: Box) {
            box = new
            row = new.place
        }

        /// Gives the row a box of its own, if a flush may still hold this one.
        mutating func ownBox() { if !isKnownUniquelyReferenced(&box) { replaceBox(Box.holding(box.row, wasUsed: box.header)) } }
    }

    /// `@unchecked Sendable`: touched with its lock held, or by the one who folds while no reader is let in.
    private final class Shard: @unchecked Sendable {
        /// On cache lines of its own, as processors fetch them in pairs: a neighbour's lock would be passed to and fro with it.
        let lock = UnsafeMutableRawPointer.allocate(byteCount: max(128, MemoryLayout<pthread_mutex_t>.stride), alignment: 128)
            .bindMemory(to: pthread_mutex_t.self, capacity: 1)
        @exclusivity(unchecked) var entries: [Key: Entry] = [:]
        /// Rows that may be forgotten, in the order in which they came, from `oldest` on.
        var clock: [Key] = []
        var oldest = 0
        var bytes = 0

        init() {
            #if canImport(Glibc)
                // Held for less than a sleep costs: who finds it taken looks again some times first.
                var attributes = pthread_mutexattr_t()
                pthread_mutexattr_init(&attributes)
                pthread_mutexattr_settype(&attributes, CInt(PTHREAD_MUTEX_ADAPTIVE_NP))
                pthread_mutex_init(lock, &attributes)
                pthread_mutexattr_destroy(&attributes)
            #else
                pthread_mutex_init(lock, nil)
            #endif
        }
        deinit {
            pthread_mutex_destroy(lock)
            lock.deallocate()
        }
    }

    private static var shardCount: Int { 16 }
    private let prefix: UInt8
    private let source: FoldTable?
    /// Where an overlay's rows come from that it has not changed.
    private let underlay: (@Sendable (Key) throws -> Row?)?
    private let shards: [Shard]
    /// The same, to be lent without counting.
    private let lentShards: [Unmanaged<Shard>]
    private let shardBytesMax: Int
    @exclusivity(unchecked) private var epoch: UInt64 = 1
    /// What changed in this epoch: a row keeps its box for as long as that lasts.
    @exclusivity(unchecked) private var dirty: [(key: Key, box: Box)] = []
    @exclusivity(unchecked) package private(set) var unsavedBytes = 0
    /// Whether its boxes are its own, to note in them that they were asked for.
    @exclusivity(unchecked) private var marksUse = true

    init(prefix: UInt8, source: FoldTable?, cacheBytes: Int) {
        self.prefix = prefix
        self.source = source
        underlay = nil
        shards = (0..<Self.shardCount).map { _ in Shard() }
        lentShards = shards.map { Unmanaged.passUnretained($0) }
        shardBytesMax = cacheBytes / Self.shardCount
    }

    /// Rows in memory over others, which stay as they are: nothing of it is ever saved, and rows are found by their keys only.
    init(over underlay: @escaping @Sendable (Key) throws -> Row?, cacheBytes: Int) {
        prefix = 0
        source = nil
        self.underlay = underlay
        // There may be thousands of such tables, each with a few rows.
        shards = [Shard()]
        lentShards = shards.map { Unmanaged.passUnretained($0) }
        shardBytesMax = cacheBytes
    }

    @inline(__always) private func place(of key: Key) -> Int { Int(truncatingIfNeeded: key.lockBits) & (shards.count - 1) }
    @inline(__always) private func shard(of key: Key) -> Shard { shards[place(of: key)] }

    /// The longest key that LMDB takes is 511 bytes.
    static var keyBytesMax: Int { 480 }

    private func bytes(of key: Key) -> [UInt8] { [prefix] + key.keyBytes }

    private func load(_ key: Key) throws -> Row? {
        if let underlay { return try underlay(key) }
        return try source?.value(at: bytes(of: key)) { bytes in
            var reader = RowReader(bytes)
            let row = try Row(decoding: &reader)
            guard reader.isAtEnd else { throw CodecError(.notCanonical) }
            return row
        }
    }

    // Reading.

    /// Lends a row for the length of the closure; `nil` if there is none.
    public func read<R>(_ key: Key, _ body: (borrowing Row) throws -> R) throws -> R? { try lend(key) { try body($0.pointee) } }

    /// The same, by its place in memory: a borrowed row is copied all the same, with the reference counts of all that it refers to, where a closure
    /// captures it or the compiler does not see that nobody changes it.
    func lend<R>(_ key: Key, _ body: (UnsafePointer<Row>) throws -> R) throws -> R? {
        // Nobody changes it while the caller holds the fold lock.
        if let box = boxInMemory(key) { return try box.lend(body) }
        guard let row = try load(key) else { return nil }
        let bytes = Int32(clamping: row.memoryBytes)
        let box = Box.holding(row, wasUsed: false)
        let shard = shard(of: key)
        pthread_mutex_lock(shard.lock)
        if shard.entries[key] == nil { keep(Entry(box: box, epoch: 0, bytes: bytes), key, shard) }
        pthread_mutex_unlock(shard.lock)
        return try box.lend(body)
    }

    /// One reference count is touched, the box's: readers on several cores would pass those of what they share to and fro.
    @inline(__always) private func boxInMemory(_ key: Key) -> Box? {
        lentShards[place(of: key)]._withUnsafeGuaranteedRef { shard in
            pthread_mutex_lock(shard.lock)
            defer { pthread_mutex_unlock(shard.lock) }
            guard let box = shard.entries[key]?.box else { return nil }
            if marksUse, !box.header { box.header = true }
            return box
        }
    }

    /// A row; `nil` if there is none.
    public func row(at key: Key) throws -> Row? { try lend(key) { $0.pointee } }

    /// Visits all rows whose keys begin with a prefix, ascending, until the closure says false.
    public func forEach(withPrefix keyPrefix: [UInt8] = [], _ body: (Key, Row) throws -> Bool) throws {
        precondition(underlay == nil, "an overlay's rows are asked for by their keys")
        // What memory has beyond the archive: a flush cannot take any of it away while the caller holds the fold lock.
        var unsaved: [(key: Key, row: Row?)] = []
        for shard in shards {
            pthread_mutex_lock(shard.lock)
            for (key, entry) in shard.entries where entry.epoch > 0 {
                if keyPrefix.isEmpty || key.keyBytes.starts(with: keyPrefix) { unsaved.append((key, entry.box.row)) }
            }
            pthread_mutex_unlock(shard.lock)
        }
        unsaved.sort { Key.isAscending($0.key, $1.key) }
        var next = 0
        var goes = true
        func yieldUnsaved(before key: Key?) throws {
            while goes, next < unsaved.count, key.map({ Key.isAscending(unsaved[next].key, $0) }) ?? true {
                if let row = unsaved[next].row { goes = try body(unsaved[next].key, row) }
                next += 1
            }
        }
        try source?.forEach(withPrefix: [prefix] + keyPrefix) { bytes, value in
            guard let key = Key(keyBytes: UnsafeRawBufferPointer(rebasing: bytes.dropFirst())) else { throw CodecError(.badValue) }
            try yieldUnsaved(before: key)
            guard goes else { return false }
            if next < unsaved.count, unsaved[next].key == key { return true }
            var reader = RowReader(value)
            goes = try body(key, Row(decoding: &reader))
            return goes
        }
        try yieldUnsaved(before: nil)
    }

    /// Rows that the archive does not have yet, with those of which it does not have the deletion.
    struct Unsaved { fileprivate var rows: [(key: Key, box: Box)] = [] }

    /// Nobody reads meanwhile, and the rows are frozen: what changes later changes others.
    func unsaved() -> Unsaved {
        var unsaved = Unsaved()
        for shard in shards { for (key, entry) in shard.entries where entry.epoch > 0 { unsaved.rows.append((key, entry.box)) } }
        return unsaved
    }

    /// Shows another table's unsaved rows; of a new one over the same archive, which is only read from here on.
    func take(_ unsaved: Unsaved) {
        marksUse = false
        for (key, box) in unsaved.rows { shard(of: key).entries[key] = Entry(box: box, epoch: epoch, bytes: 0) }
    }

    // Writing.

    /// Changes a row in place; what the closure leaves as `nil` is deleted.
    @inline(__always) public func update<R>(_ key: Key, _ body: (inout Row?) throws -> R) throws -> R { try body(&rowToChange(key).pointee) }

    /// Puts a row in the place of what is there, which is not read; `nil` deletes it.
    public func put(_ row: Row?, at key: Key) throws { try rowToChange(key, loads: false).pointee = row }

    /// Knows nothing of what will be changed: compiled once for a table, and not for each closure with copies of what that holds.
    ///
    /// The row stays where it is until the rows are frozen next: `dirty` holds its box.
    ///
    /// - Parameter loads: false if nobody will ask what the row was.
    @inline(never) private func rowToChange(_ key: Key, loads: Bool = true) throws -> UnsafeMutablePointer<Row?> {
        let shard = shard(of: key)
        var index = shard.entries.index(forKey: key)
        if index == nil {
            guard key.keyByteCount <= Self.keyBytesMax else {
                throw EventLogError(.invalidArgument, "a key of \(key.keyByteCount) bytes: a projection's keys have at most \(Self.keyBytesMax)")
            }
            let row = loads ? try load(key) : nil
            keep(Entry(box: Box.holding(row, wasUsed: true), epoch: 0, bytes: Int32(clamping: row?.memoryBytes ?? 0)), key, shard, evicts: false)
            index = shard.entries.index(forKey: key)
        }
        return use(&shard.entries.values[index!], key)
    }

    /// The row of an entry that is about to change in this epoch.
    @inline(__always) private func use(_ entry: inout Entry, _ key: Key) -> UnsafeMutablePointer<Row?> {
        if entry.epoch != epoch {
            entry.epoch = epoch
            // A row that is new has no bytes yet, but its place in memory all the same: many small ones must not count for next to nothing.
            unsavedBytes += 200 + (entry.bytes == 0 ? MemoryLayout<Row>.stride : Int(entry.bytes))
            entry.ownBox()
            dirty.append((key, entry.box))
        }
        return entry.row
    }

    /// Where a row lies that is in memory: to have it fetched into the processor's cache. By who folds.
    @inline(__always) func place(inMemory key: Key) -> UnsafePointer<Row?>? {
        lentShards[place(of: key)]._withUnsafeGuaranteedRef { shard in
            guard let index = shard.entries.index(forKey: key) else { return nil }
            func row(_ entry: inout Entry) -> UnsafePointer<Row?> { UnsafePointer(entry.row) }
            return row(&shard.entries.values[index])
        }
    }

    /// Notes that a row grew by so many bytes, so that memory is counted.
    public func grew(by bytes: Int) { unsavedBytes += bytes }

    // Memory.

    private func keep(_ entry: Entry, _ key: Key, _ shard: Shard, evicts: Bool = true) {
        shard.bytes += Int(entry.bytes) + 160
        shard.entries[key] = entry
        shard.clock.append(key)
        if evicts { evict(shard) }
    }

    /// Second chance: what was used since it was last looked at stays for another round. Says false if there is more to do.
    @discardableResult
    private func evict(_ shard: Shard, atMost limit: Int = .max) -> Bool {
        let triesMax = 2 * (shard.clock.count - shard.oldest)
        var tries = min(triesMax, limit)
        while shard.bytes > shardBytesMax, tries > 0, shard.oldest < shard.clock.count {
            tries -= 1
            let key = shard.clock[shard.oldest]
            shard.oldest += 1
            guard let index = shard.entries.index(forKey: key) else { continue }
            if shard.entries.values[index].epoch > 0 || shard.entries.values[index].box.header {
                shard.entries.values[index].box.header = false
                shard.clock.append(key)
            } else {
                shard.bytes -= Int(shard.entries.values[index].bytes) + 160
                shard.entries.remove(at: index)
            }
        }
        if shard.oldest > 1024, shard.oldest * 2 > shard.clock.count {
            shard.clock.removeFirst(shard.oldest)
            shard.oldest = 0
        }
        return tries > 0 || triesMax <= limit
    }

    /// `@unchecked Sendable`: one thread encodes; whoever settles does so behind it.
    final class Frozen: @unchecked Sendable {
        let prefix: UInt8
        let epoch: UInt64
        fileprivate(set) var rows: [(key: Key, box: Box)]

        init(prefix: UInt8, epoch: UInt64, rows: [(key: Key, box: Box)]) {
            self.prefix = prefix
            self.epoch = epoch
            self.rows = rows
        }

        /// Its rows in at most so many parts, ascending; few rows are one.
        func split(into count: Int) -> [Frozen] {
            let partMin = 1024
            let parts = min(count, rows.count / partMin)
            if parts < 2 { return [self] }
            let order = order()
            return (0..<parts).map { part in
                let places = order[order.count * part / parts..<order.count * (part + 1) / parts]
                return Frozen(prefix: prefix, epoch: epoch, rows: places.map { rows[$0.place] })
            }
        }

        /// The places in `rows`, by key.
        private func order() -> [(prefix: UInt64, place: Int)] {
            var order: [(prefix: UInt64, place: Int)] = []
            order.reserveCapacity(rows.count)
            for (place, row) in rows.enumerated() { order.append((row.key.sortPrefix, place)) }
            order.sort { left, right in
                if left.prefix != right.prefix { return left.prefix < right.prefix }
                return Key.isAscending(rows[left.place].key, rows[right.place].key)
            }
            return order
        }

        func encode(into batch: inout RowBatch) {
            for (_, place) in order() {
                let bytes = [prefix] + rows[place].key.keyBytes
                var packed: Row?
                let isThere: Void? = rows[place].box.lend { row in
                    packed = row.pointee.packed()
                    batch.put(bytes) { out in
                        var writer = RowWriter(ByteBuffer(capacity: 64))
                        swap(&writer.out, &out)
                        if let packed { packed.encode(into: &writer) } else { row.pointee.encode(into: &writer) }
                        swap(&writer.out, &out)
                    }
                }
                if isThere == nil { batch.delete(bytes) }
                if let packed { rows[place].box = Box.holding(packed, wasUsed: false) }
            }
        }
    }

    /// What changed since the last time; rows are values, so what changes later does not reach it.
    func freeze() -> Frozen {
        defer {
            epoch += 1
            dirty = []
            unsavedBytes = 0
        }
        return Frozen(prefix: prefix, epoch: epoch, rows: dirty)
    }

    /// The archive has these rows now: unless they changed again, they may be forgotten. Takes some of them from a place on, and answers the next
    /// place; `nil` at the end.
    func settle(_ frozen: Frozen, from start: Int, count: Int) -> Int? {
        guard start < frozen.rows.count else { return evict(atMost: count, at: start - frozen.rows.count).map { frozen.rows.count + $0 } }
        let end = min(start + count, frozen.rows.count)
        for (key, box) in frozen.rows[start..<end] {
            let shard = shard(of: key)
            guard let index = shard.entries.index(forKey: key), shard.entries.values[index].epoch == frozen.epoch else { continue }
            guard let row = box.row else {
                shard.bytes -= Int(shard.entries.values[index].bytes) + 160
                shard.entries.remove(at: index)
                continue
            }
            let bytes = Int32(clamping: row.memoryBytes)
            shard.bytes += Int(bytes - shard.entries.values[index].bytes)
            shard.entries.values[index].bytes = bytes
            shard.entries.values[index].epoch = 0
            guard box !== shard.entries.values[index].box else { continue }
            box.header = shard.entries.values[index].box.header
            shard.entries.values[index].replaceBox(box)
        }
        return end
    }

    /// So often a shard is gone on with: what changes all the time cannot be forgotten.
    private static var evictionsMax: Int { 16 }

    /// Forgets what is too much, a little at a time, as readers wait. Behind the rows come so many places for each shard; answers the next.
    private func evict(atMost count: Int, at place: Int) -> Int? {
        let (number, turn) = place.quotientAndRemainder(dividingBy: Self.evictionsMax)
        guard number < shards.count else { return nil }
        return evict(shards[number], atMost: count) ? (number + 1) * Self.evictionsMax : number * Self.evictionsMax + turn + 1
    }
}

/// A table whatever its types, as a state keeps them.
///
/// Closures, not a protocol's methods: made where the types are known, they are compiled for just these.
struct AnyTable: Sendable {
    /// Hands out each row's key and bytes, ascending.
    let forEachEncoded: @Sendable (_ body: (borrowing RowWriter) throws -> Void) throws -> Void
    let unsavedBytes: @Sendable () -> Int
    let freeze: @Sendable () -> any FrozenRows
    let settle: @Sendable (_ rows: any FrozenRows, _ start: Int, _ count: Int) -> Int?
    let unsaved: @Sendable () -> Any
    let take: @Sendable (_ unsaved: Any) -> Void

    @inline(__always) init<Key, Row>(_ table: Table<Key, Row>) {
        forEachEncoded = { body in try table.forEachEncoded(body) }
        unsavedBytes = { table.unsavedBytes }
        freeze = { FrozenTable(table.freeze()) }
        settle = { rows, start, count in
            guard let frozen = (rows as? FrozenTable)?.rows as? Table<Key, Row>.Frozen else { return nil }
            return table.settle(frozen, from: start, count: count)
        }
        unsaved = { table.unsaved() }
        take = { unsaved in if let unsaved = unsaved as? Table<Key, Row>.Unsaved { table.take(unsaved) } }
    }
}

private struct FrozenTable: FrozenRows {
    let rows: any Sendable
    private let encoded: @Sendable (inout RowBatch) throws -> Void
    private let parts: @Sendable (Int) -> [any FrozenRows]

    @inline(__always) init<Key, Row>(_ frozen: Table<Key, Row>.Frozen) {
        rows = frozen
        encoded = { frozen.encode(into: &$0) }
        parts = { frozen.split(into: $0).map { FrozenTable($0) } }
    }

    func encode(into batch: inout RowBatch) throws { try encoded(&batch) }
    func split(into count: Int) -> [any FrozenRows] { parts(count) }
}

extension Table {
    @inline(__always) fileprivate func forEachEncoded(_ body: (borrowing RowWriter) throws -> Void) throws {
        try forEach { key, row in
            var writer = RowWriter(ByteBuffer(capacity: 256))
            writer.out.put(bytes(of: key))
            row.encode(into: &writer)
            try body(writer)
            return true
        }
    }
}
