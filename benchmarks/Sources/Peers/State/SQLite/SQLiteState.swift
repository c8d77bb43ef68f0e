import EventLog
import Glibc

/// SQLite as a good engineer would use it here: WAL with synchronous=FULL, prepared statements, normalised tables with upserts, one
/// transaction a commit in which each row that its events touch is written once.
final class SQLiteState: ReplayEngine {
    private let path: String
    private let database: SQLiteDatabase
    private let begin, commit, rollback, ownSeq: SQLiteStatement
    private var position: Position
    /// `nil` while the state is dropped: its statements cannot outlive its tables.
    private var live: Live?

    private struct Live {
        var writer: SQLiteStateWriter
        var changes: WorkingSet
    }

    init(directory: String, isDurable: Bool) throws {
        path = directory + "/state.db"
        database = try SQLiteDatabase(path, isReadOnly: false, isDurable: isDurable)
        try database.execute(SQLiteSchema.events)
        begin = try database.prepare("BEGIN IMMEDIATE")
        commit = try database.prepare("COMMIT")
        rollback = try database.prepare("ROLLBACK")
        ownSeq = try database.prepare("SELECT max(seq) FROM events WHERE author = ?1 AND kind = 14")
        position = try database.prepare("SELECT max(position) FROM events").first { $0.number(0) } ?? 0
        try prepareLive()
    }

    private func prepareLive() throws {
        try database.execute(SQLiteSchema.state + SQLiteSchema.indexes)
        live = Live(writer: try SQLiteStateWriter(database), changes: WorkingSet(try SQLiteStateSource(database)))
    }

    private func transaction(_ body: () throws -> Void) throws {
        try begin.run()
        do {
            try body()
            try commit.run()
        } catch {
            try rollback.run()
            throw error
        }
    }

    func append(_ items: ArraySlice<Item>) throws {
        guard var live = live.take() else { throw EngineError("sqlite: the state is dropped") }
        let now = wallMilliseconds()
        try transaction {
            for item in items {
                position += 1
                var (key, seq) = try live.changes.fold(item, position: position, now: now)
                if seq == 0 { seq = try nextOwnSeq(of: item.event.author) }
                try live.writer.write(item, position: position, key: key, seq: seq)
            }
            try live.writer.write(&live.changes)
        }
        live.changes.removeAll()
        self.live = live
    }

    /// A preference's seq, in its user's own log.
    private func nextOwnSeq(of user: UserID) throws -> Seq {
        ownSeq.bind(1, user.string)
        return 1 + (try ownSeq.first { $0.number(0) } ?? 0)
    }

    func reader() throws -> any StateReader { try SQLiteStateReader(path) }

    func dropState() throws {
        live = nil
        database.finalizeStatements(but: [begin, commit, rollback, ownSeq])
        for table in SQLiteSchema.tables { try database.execute("DROP TABLE \(table)") }
        try database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// Folds one conversation after the other in memory, and writes the finished rows in the tables' order; the indexes come last, sorted.
    func buildState() throws {
        try transaction {
            try database.execute(SQLiteSchema.state)
            let build = try SQLiteStateBuild(database)
            try build.run()
            try database.execute(SQLiteSchema.indexes)
        }
        try prepareLive()
    }

    /// Builds the state as simple code would: in commit order, each event's rows upserted at once, in one transaction.
    func replayState() throws {
        try prepareLive()
        guard var live else { return }
        let events = try database.prepare("SELECT \(SQLiteStateBuild.columns) FROM events ORDER BY position")
        var conversations: [Int64: ConversationID] = [:]
        var fields = EventFields()
        let now = wallMilliseconds()
        try transaction {
            while try events.step() {
                // A conversation's first event names it.
                let id = try conversations[events.int(1)] ?? events.id(5)
                conversations[events.int(1)] = id
                _ = try live.changes.fold(try events.item(in: id, &fields), position: events.number(0), now: now)
                try live.writer.write(&live.changes)
                live.changes.removeAll()
            }
        }
        self.live = live
    }

    func compact() throws { try database.execute("PRAGMA wal_checkpoint(TRUNCATE)") }

    func close() throws { try database.close() }
}

/// The hub's clock, against which an event's own time counts no later.
func wallMilliseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000
}
