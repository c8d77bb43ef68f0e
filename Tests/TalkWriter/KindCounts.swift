import ConversationStore

/// An application's own projection: events of each conversation, and bytes of its chunks.
final class KindCounts: Projection {
    struct Count: TableRow, Hashable {
        var events: UInt64 = 0
        var chunks: UInt64 = 0
        var bytes: UInt64 = 0

        init() {}

        init(decoding reader: inout RowReader) throws {
            events = try reader.value()
            chunks = try reader.value()
            bytes = try reader.value()
        }

        func encode(into writer: inout RowWriter) {
            writer.put(events)
            writer.put(chunks)
            writer.put(bytes)
        }
    }

    static let name = "kind-counts"
    static let version: UInt32 = 1
    let counts: Table<ConversationID, Count>

    init(tables: inout ProjectionTables) { counts = tables.table() }

    func apply(_ event: RecordedEvent) throws {
        try counts.update(event.event.conversation) { row in
            row = row ?? Count()
            row!.events += 1
            guard case .chunkAppended(_, _, let text) = event.event.content else { return }
            row!.chunks += 1
            row!.bytes += UInt64(text.utf8.count)
        }
    }
}
