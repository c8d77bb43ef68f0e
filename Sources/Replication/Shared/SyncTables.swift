internal import EventLog

/// The tables of the file `sync` beside a store (docs/FORMAT.md, "Side store").
enum SyncTables {
    /// A replica's own facts, by name.
    static let state = "state"
    /// A replica's events that no hub has accepted yet, by the order in which they were made.
    static let outbox = "outbox"
    /// The last counter that a replica gave out in each log.
    static let lanes = "lanes"
    /// Newest parts of logs that are not held whole, by log.
    static let previews = "previews"
    /// Events that a hub had and lost.
    static let lost = "lost"
    /// Events that are held beside the logs and for which no cursor vouches, until what the hub has there has come.
    static let suspects = "suspects"
    /// This replica's own among the events that a hub had and lost: the next opening puts them back into the outbox.
    static let offers = "offers"
    /// Sound events of a damaged log behind what is missing of it.
    static let ahead = "ahead"
    /// A hub's openings.
    static let incarnations = "incarnations"

    static let names = SideStore.syncTables

    /// Whether there is such a file, be it sound or not.
    static func isThere(_ directory: String) -> Bool { StoreFiles.exists(SideStore.path(directory)) }

    /// The file beside a store for reading; `nil` if there is none.
    ///
    /// - Throws: `EventLogError` `damaged`, also where a table is out of reach: what it held would be taken for absent.
    static func openIfPresent(_ directory: String) throws -> SideStore? {
        guard let side = try SideStore.openIfPresent(directory: directory, tables: names) else { return nil }
        do { try side.checkTables() } catch {
            side.close()
            throw error
        }
        return side
    }
}
