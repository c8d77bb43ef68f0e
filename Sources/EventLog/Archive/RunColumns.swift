/// The columns of a run that is being written (docs/FORMAT.md, "Run").
struct RunColumns: ~Copyable {
    // Ids, which do not compress.
    var heads = ByteBuffer(), logIDs = ByteBuffer(), sentIDs = ByteBuffer(), replicaIDs = ByteBuffer(), explicitIDs = ByteBuffer()
    var commitments = ByteBuffer()

    // A run's.
    private(set) var userCount = 0
    private var strings = ByteBuffer()
    var directory = ByteBuffer(), orderSlices = ByteBuffer(), orderCounts = ByteBuffer(), hubTimes = ByteBuffer(), hubCounters = ByteBuffer()

    // An event's.
    var kinds = ByteBuffer(), flags = ByteBuffer(), authors = ByteBuffer(), newAuthors = ByteBuffer(), times = ByteBuffer()
    var originCounters = ByteBuffer(), replicas = ByteBuffer(), counters = ByteBuffer(), targets = ByteBuffer(), indexes = ByteBuffer()
    var textLengths = ByteBuffer(), restLengths = ByteBuffer(), odd = ByteBuffer(), rest = ByteBuffer()
    var texts = ByteBuffer()

    /// Answers the user's number.
    mutating func add(_ user: UserID) -> Int {
        strings.put(lengthOf: user.string)
        userCount += 1
        return userCount - 1
    }

    /// The section of the ids.
    func putIDs(replicas: Int, into out: inout ByteBuffer) {
        out.put(varint: UInt64(replicas))
        out.put(varint: UInt64(commitments.count / Hash256.byteCount))
        out.put(varint: UInt64(explicitIDs.count / 16))
        out.put(heads.bytes)
        out.put(logIDs.bytes)
        out.put(sentIDs.bytes)
        out.put(replicaIDs.bytes)
        out.put(explicitIDs.bytes)
        out.put(commitments.bytes)
    }

    /// What is compressed as one, but for the texts.
    func putColumns(into out: inout ByteBuffer) {
        out.put(varint: UInt64(userCount))
        out.put(column: strings)
        out.put(column: directory)
        out.put(column: orderSlices)
        out.put(column: orderCounts)
        out.put(column: hubTimes)
        out.put(column: hubCounters)
        out.put(column: kinds)
        out.put(column: flags)
        out.put(column: authors)
        out.put(column: newAuthors)
        out.put(column: times)
        out.put(column: originCounters)
        out.put(column: replicas)
        out.put(column: counters)
        out.put(column: targets)
        out.put(column: indexes)
        out.put(column: textLengths)
        out.put(column: restLengths)
        out.put(column: odd)
        out.put(column: rest)
    }

    /// Keeps the memory.
    mutating func removeAll() {
        userCount = 0
        heads.removeAll()
        logIDs.removeAll()
        sentIDs.removeAll()
        replicaIDs.removeAll()
        explicitIDs.removeAll()
        commitments.removeAll()
        strings.removeAll()
        directory.removeAll()
        orderSlices.removeAll()
        orderCounts.removeAll()
        hubTimes.removeAll()
        hubCounters.removeAll()
        kinds.removeAll()
        flags.removeAll()
        authors.removeAll()
        newAuthors.removeAll()
        times.removeAll()
        originCounters.removeAll()
        replicas.removeAll()
        counters.removeAll()
        targets.removeAll()
        indexes.removeAll()
        textLengths.removeAll()
        restLengths.removeAll()
        odd.removeAll()
        rest.removeAll()
        texts.removeAll()
    }
}

extension ByteBuffer {
    fileprivate mutating func put(column: borrowing ByteBuffer) {
        put(varint: UInt64(column.count))
        put(column.bytes)
    }
}
