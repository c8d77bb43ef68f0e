extension LMDBEnvironment {
    /// How many of a table's records do not match their checksums. Nothing of them is decoded; a bounded number of bytes is read in one snapshot, and
    /// given back.
    func damagedRecords(in table: Table) throws -> Int {
        var damaged = 0
        var last: [UInt8] = []
        var isMore = true
        while isMore {
            isMore = false
            try read { transaction in
                var bytes = 0
                try transaction.forEach(table, from: last) { key, value in
                    let key = Array(key)
                    if key == last { return true }
                    if Archive.unsealed(key, value) == nil { damaged += 1 }
                    last = key
                    bytes += value.count
                    isMore = bytes >= Self.bytesASnapshot
                    return !isMore
                }
            }
            releasePages()
        }
        return damaged
    }

    private static let bytesASnapshot = 2 << 20
}
