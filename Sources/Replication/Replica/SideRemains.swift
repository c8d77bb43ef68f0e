public import EventLog

/// What a store keeps beside its log, as far as it can be read of a damaged file too. Nobody may have the store open for writing meanwhile.
public struct SideRemains {
    /// Events of the replica's user that no hub has accepted, in the order made.
    public let outbox: [OutboxEntry]
    /// Events that a hub had and lost.
    public let lost: [RecordedEvent]
    /// How many events it holds that the hub has and the log has not: newest parts, and what stands behind gaps.
    public let ahead: Int
    /// What is wrong with the file, and what cannot be read of it, for people.
    public let problems: [String]

    /// `nil` if there is no such file.
    ///
    /// - Throws: `EventLogError`.
    public init?(of path: String) throws {
        guard StoreFiles.exists(SideStore.path(path)) else { return nil }
        let salvaged = try SideStore.salvage(directory: path, tables: SyncTables.names)
        func events(_ tables: [SideStore.TableName]) -> [RecordedEvent?] {
            tables.flatMap { salvaged[$0].records }.map { record in record.value.withUnsafeBytes { try? RecordedEvent(kept: $0) } }
        }
        let entries = salvaged[SyncTables.outbox].records.map { record in
            record.value.withUnsafeBytes { try? OutboxEntry(id: Outbox.id(record.key), decoding: $0) }
        }
        let lost = events([SyncTables.lost, SyncTables.offers])
        outbox = entries.compactMap { $0 }
        self.lost = lost.compactMap { $0 }
        let parts = salvaged[SyncTables.previews].records.filter { !$0.key.suffix(8).allSatisfy { $0 == 0 } }
        ahead = parts.count + [SyncTables.ahead, SyncTables.suspects].reduce(0) { $0 + salvaged[$1].records.count }
        var problems = salvaged.problems + salvaged.losses(of: SyncTables.names)
        let strange = entries.count { $0 == nil } + lost.count { $0 == nil }
        if strange > 0 { problems.append("\(SideStore.fileName): \(strange) records that are no events") }
        self.problems = problems
    }
}
