import ConversationStore
import Synchronization

/// How many events each conversation has: a projection of the scenario's own, beside the store's.
final class LogCounts: Projection {
    static let name = "counts"
    static let version: UInt32 = 1
    private let counts: Table<ConversationID, Count>

    init(tables: inout ProjectionTables) { counts = tables.table() }

    func apply(_ event: RecordedEvent) throws { try counts.update(event.event.conversation) { $0 = Count(value: ($0?.value ?? 0) + 1) } }
}

/// The control's: it keeps some of what it counted to itself, so that the position that is saved goes on without the rows that belong to it.
final class ForgetfulCounts: Projection {
    static let name = "counts"
    static let version: UInt32 = 1
    private let counts: Table<ConversationID, Count>
    private let kept = Mutex<[ConversationID: UInt64]>([:])

    init(tables: inout ProjectionTables) { counts = tables.table() }

    func apply(_ event: RecordedEvent) throws {
        let id = event.event.conversation
        let more = kept.withLock { kept -> UInt64 in
            kept[id, default: 0] += 1
            return kept[id]! % 4 == 0 ? kept.removeValue(forKey: id)! : 0
        }
        if more > 0 { try counts.update(id) { $0 = Count(value: ($0?.value ?? 0) + more) } }
    }
}

struct Count: TableRow {
    var value: UInt64

    init(value: UInt64) { self.value = value }
    init(decoding reader: inout RowReader) throws { value = try reader.value() }
    func encode(into writer: inout RowWriter) { writer.put(value) }
}
