/// Damage of closed stores, for tests of what follows it.
extension EventStore {
    /// Spoils the so-many-eth run of a closed store, for tests of what follows. Answers how many runs there are.
    ///
    /// - Parameters:
    ///   - hasParity: whether what would restore the run stays.
    ///   - change: what becomes of the run's bytes; unless told, one bit in the middle flips.
    package static func damageRun(
        at path: String, number: Int, hasParity: Bool = false, change: (inout [UInt8]) -> Void = { $0[$0.count / 2] ^= 0x10 }
    ) throws -> Int {
        let archive = try Archive(directory: path, isReadOnly: false, mapBytesMax: .max / 2)
        defer { archive.environment.close() }
        return try archive.environment.write { transaction in
            var runs: [(key: [UInt8], value: [UInt8])] = []
            try transaction.forEach(archive.runs) { key, value in
                runs.append((Array(key), Array(value)))
                return true
            }
            guard runs.indices.contains(number) else { return runs.count }
            change(&runs[number].value)
            try transaction.put(archive.runs, runs[number].key, runs[number].value)
            if !hasParity { try Directory.remove(ParityFile(directory: path).path) }
            return runs.count
        }
    }

    /// The archive's records of a log: which a test spoils.
    package enum LogRecord: CaseIterable, Sendable { case row, secret }

    /// Spoils the so-many-eth row or secret of a closed store, or takes it away. Answers how many there are.
    package static func damageRecord(at path: String, _ kind: LogRecord, number: Int, removes: Bool = false) throws -> Int {
        let archive = try Archive(directory: path, isReadOnly: false, mapBytesMax: .max / 2)
        defer { archive.environment.close() }
        let table = kind == .row ? archive.logs : archive.secrets
        return try archive.environment.write { transaction in
            var records: [(key: [UInt8], value: [UInt8])] = []
            try transaction.forEach(table, from: []) { key, value in
                records.append((Array(key), Array(value)))
                return true
            }
            guard records.indices.contains(number) else { return records.count }
            records[number].value[records[number].value.count / 2] ^= 0x10
            if removes { try transaction.delete(table, records[number].key) } else { try transaction.put(table, records[number].key, records[number].value) }
            return records.count
        }
    }

    /// Spoils all rows of what a projection of a closed store shows. Answers how many there are.
    package static func damageRows(at path: String, of projection: String) throws -> Int {
        let archive = try Archive(directory: path, isReadOnly: false, mapBytesMax: .max / 2)
        defer { archive.environment.close() }
        let live = try archive.environment.read { try FoldRecord.read(projection, archive, $0) }.live
        guard let live, let table = try archive.foldTable(projection, live.number, creates: false)?.table else { return 0 }
        return try archive.environment.write { transaction in
            var keys: [[UInt8]] = []
            try transaction.forEach(table, from: []) { key, _ in
                keys.append(Array(key))
                return true
            }
            for key in keys { try transaction.put(table, key, [UInt8](repeating: 3, count: 50)) }
            return keys.count
        }
    }

    /// Gives a log of a closed store another head than its events lead to, as whoever can compute checksums could.
    package static func forgeHead(at path: String, of log: LogID) throws {
        let archive = try Archive(directory: path, isReadOnly: false, mapBytesMax: .max / 2)
        defer { archive.environment.close() }
        try archive.environment.write { transaction in
            var numbers: [ReplicaID: UInt64] = [:]
            try transaction.forEach(archive.replicas, from: []) { key, value in
                var reader = ByteReader(try Archive.open(Array(key), value, "a replica's name"))
                numbers[try reader.identifier()] = UInt64(bigEndian: key.loadUnaligned(as: UInt64.self))
                return true
            }
            guard var row = try archive.row(log, transaction.reading) else { return }
            let size = row.tree.size
            row.tree = CompactRange()
            for _ in 0..<size { row.tree.append(Hash256()) }
            var out = ByteBuffer(capacity: 1 << 12)
            row.encode(into: &out)
            row.encodeLanes(into: &out) { numbers[$0]! }
            try transaction.put(archive.logs, Archive.key(log: log), Archive.sealed(Archive.key(log: log), out.array()))
        }
    }
}
