extension EventStore {
    /// What the archive of a store that cannot be opened still tells of its logs.
    package struct SalvagedHeads {
        package struct Log {
            package var head: Head
            /// `nil`: it is lost.
            package var secret: [UInt8]?
        }

        package internal(set) var logs: [LogID: Log] = [:]
        /// Up to where the archive goes.
        package internal(set) var position: Position = 0

        /// Whether no log's row is missing or older than the archive: in all of them there are as many events as it has.
        package var isWhole: Bool { logs.values.map(\.head.size).sumIfAny == position }
    }

    /// Reads what ``salvage(at:progress:event:lost:)`` does not lend: the archived logs' heads, and those secrets that came from elsewhere, as all of a
    /// replica's do. `nil`: the key, or the archive's state, is lost.
    package static func salvageHeads(at path: String) -> SalvagedHeads? {
        guard let keys = try? KeyFile(reading: path), var file = try? DataFile(path: Archive.path(path)) else { return nil }
        file.isLenient = !file.check().isSound
        file.findRoot { Archive.State(salvaging: $0)?.commit }
        guard let state = Archive.State(salvaging: file), keys.key(ofGeneration: state.keyGeneration) != nil else { return nil }
        let secrets = Self.secrets(in: file, state, keys).seeds
        var result = SalvagedHeads(position: state.position)
        _ = file.forEach(database: "logs") { name, value in
            let name = name.array
            value.withUnsafeBytes { bytes in
                guard let sealed = Archive.unsealed(name, bytes),
                    let row = try? LogRow(key: name, decoding: sealed, replica: { ReplicaID(high: 0, low: $0) }), row.tree.size > 0
                else { return }
                // A damaged page may hold an older row, too.
                if let known = result.logs[row.id], known.head.size >= row.tree.size { return }
                let head = Head(log: row.id, size: row.tree.size, root: row.tree.root())
                result.logs[row.id] = SalvagedHeads.Log(head: head, secret: secrets[row.number]?.secret)
            }
            return true
        }
        return result
    }

    /// The secrets that an archive holds, by the logs' numbers, as far as they can be read: of logs that came from elsewhere, and of those of which bodies
    /// were erased.
    ///
    /// - Parameter state: `nil`: it is lost, and either key may count.
    /// - Returns: also whether all could be read.
    static func secrets(in file: borrowing DataFile, _ state: Archive.State?, _ keys: KeyFile) -> (seeds: [UInt64: PuncturedSeeds], isWhole: Bool) {
        let keys = [keys.current, keys.next].compactMap(\.self).filter { $0.generation == state?.keyGeneration ?? $0.generation }
        var seeds: [UInt64: PuncturedSeeds] = [:]
        var isWhole = state != nil && !keys.isEmpty
        let problems = file.forEach(database: "secrets") { name, value in
            let name = name.array, number = name.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            let raw = value.withUnsafeBytes { bytes in
                Archive.unsealed(name, bytes).flatMap { sealed in
                    keys.lazy.compactMap { try? Wrapping.unwrap(sealed, key: $0.secret, for: "log \(number)") }.first
                }
            }
            if let raw, let found = PuncturedSeeds(encoded: raw) { seeds[number] = found } else { isWhole = false }
            return true
        }
        return (seeds, isWhole && problems.isEmpty)
    }
}

extension Sequence<UInt64> {
    /// `nil`: no number holds it. Of a damaged store each may be any.
    var sumIfAny: UInt64? {
        var sum: UInt64 = 0
        for number in self {
            let (next, overflows) = sum.addingReportingOverflow(number)
            if overflows { return nil }
            sum = next
        }
        return sum
    }
}
