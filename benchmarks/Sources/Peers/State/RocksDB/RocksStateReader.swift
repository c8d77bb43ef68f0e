import CRocksDB
import EventLog

/// Reads from the shared database; what one read answers comes from one snapshot.
final class RocksStateReader: PeerReader {
    private let database: RocksDatabase
    private let reading = rocksdb_readoptions_create()

    init(_ database: RocksDatabase) { self.database = database }

    private func snapshot<Result>(_ body: () throws -> Result) rethrows -> Result {
        let snapshot = rocksdb_create_snapshot(database.handle)
        rocksdb_readoptions_set_snapshot(reading, snapshot)
        defer {
            rocksdb_readoptions_set_snapshot(reading, nil)
            rocksdb_release_snapshot(database.handle, snapshot)
        }
        return try body()
    }

    func page(of conversation: ConversationID, limit: Int) throws -> TimelinePage {
        try snapshot {
            let prefix = RocksKey.conversation(conversation)
            var page = TimelinePage(rows: [], receipts: try receipts(of: conversation))
            let messages = RocksIterator(database, .messages, reading, prefix: prefix, backFrom: RocksKey.seq(conversation, .max))
            while page.rows.count < limit, try messages.isValid {
                var suffix = RowReader(messages.suffix)
                page.rows.append(TimelineRow(try MessageRecord(messages.value), seq: try suffix.fixed()))
                messages.previous()
            }
            page.rows.reverse()
            return page
        }
    }

    func message(in conversation: ConversationID, seq: Seq) throws -> TimelinePage {
        try snapshot {
            guard let record = try database.get(.messages, RocksKey.seq(conversation, seq), reading, MessageRecord.init) else {
                throw EngineError("no message")
            }
            return TimelinePage(rows: [TimelineRow(record, seq: seq)], receipts: try receipts(of: conversation))
        }
    }

    /// The summary tells whether there are any, which costs less than to look.
    private func receipts(of conversation: ConversationID) throws -> [Receipt] {
        let record = try database.get(.conversations, RocksKey.conversation(conversation), reading, ConversationRecord.init)
        guard let record else { throw EngineError("no conversation") }
        guard record.hasReceipts else { return [] }
        var result: [Receipt] = []
        let marks = RocksIterator(database, .people, reading, prefix: RocksKey.people(conversation, .receipt))
        while try marks.isValid {
            let mark = try ReceiptRecord(marks.value)
            result.append(Receipt(user: try marks.suffix.user(), delivered: mark.delivered, read: mark.read))
            marks.next()
        }
        return result
    }

    func lobby(of user: UserID, limit: Int) throws -> [LobbyRow] {
        try snapshot {
            var (keys, members): ([UInt8], [MemberRecord]) = ([], [])
            let memberships = RocksIterator(database, .members, reading, prefix: RocksKey.user(user))
            while try memberships.isValid {
                let member = try MemberRecord(memberships.value)
                if member.isActive {
                    keys.append(contentsOf: memberships.suffix)
                    members.append(member)
                }
                memberships.next()
            }
            let slices = try conversations(keys)
            defer { slices.forEach(rocksdb_pinnableslice_destroy) }
            let orders = try slices.indices.map { index in
                var reader = RowReader(slices[index].pinnedBytes)
                return (order: try reader.varint(), index: index)
            }
            return try orders.sorted { $0.order > $1.order }.prefix(limit).map { _, index in
                let id: ConversationID = try keys.withUnsafeBytes { bytes in
                    var reader = RowReader(UnsafeRawBufferPointer(rebasing: bytes[(index * 16)...]))
                    return try reader.id()
                }
                return try row(id, try ConversationRecord(slices[index].pinnedBytes), members[index])
            }
        }
    }

    /// The summaries under all these keys, which ascend, in one call.
    private func conversations(_ keys: [UInt8]) throws -> [OpaquePointer] {
        let count = keys.count / 16
        return try keys.withUnsafeBytes { bytes in
            let starts: [UnsafePointer<CChar>?] = (0..<count).map { bytes.baseAddress?.advanced(by: $0 * 16).assumingMemoryBound(to: CChar.self) }
            let sizes = [Int](repeating: 16, count: count)
            var values = [OpaquePointer?](repeating: nil, count: count)
            var problems = [UnsafeMutablePointer<CChar>?](repeating: nil, count: count)
            rocksdb_batched_multi_get_cf(database.handle, reading, database[.conversations], count, starts, sizes, &values, &problems, true)
            for problem in problems { try RocksDatabase.checked { $0 = problem } }
            let found = values.compactMap { $0 }
            guard found.count == count else { throw EngineError("rocksdb: a member of no conversation") }
            return found
        }
    }

    private func row(_ id: ConversationID, _ record: ConversationRecord, _ member: MemberRecord) throws -> LobbyRow {
        var unread = record.messages - member.ordinal
        if record.deleted > 0 { unread -= try deleted(in: id, after: member.mark) }
        var preferences = member.preferences.compactMap { register in register.value.map { Preference(key: register.key, value: $0) } }
        preferences.sort { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
        return LobbyRow(conversation: id, kind: record.kind, title: record.title, last: record.last, unread: unread, preferences: preferences)
    }

    private func deleted(in conversation: ConversationID, after mark: Seq) throws -> UInt64 {
        let prefix = RocksKey.people(conversation, .deleted)
        let seqs = RocksIterator(database, .people, reading, prefix: prefix, from: RocksKey.deleted(conversation, mark + 1))
        var count: UInt64 = 0
        while try seqs.isValid {
            count += 1
            seqs.next()
        }
        return count
    }

    func participants(of conversation: ConversationID) throws -> [UserID] {
        var result: [UserID] = []
        let people = RocksIterator(database, .people, reading, prefix: RocksKey.people(conversation, .participant))
        while try people.isValid {
            result.append(try people.suffix.user())
            people.next()
        }
        return result
    }

    func close() { rocksdb_readoptions_destroy(reading) }
}

extension TimelineRow {
    fileprivate init(_ record: MessageRecord, seq: Seq) {
        var reactions = record.reactions.filter(\.isOn).map { Reaction(emoji: $0.emoji, user: $0.user) }
        reactions.sort { left, right in
            left.emoji.utf8.lexicographicallyPrecedes(right.emoji.utf8) || left.emoji.utf8.elementsEqual(right.emoji.utf8) && left.user < right.user
        }
        self.init(
            id: record.id, seq: seq, author: record.author, role: record.role, text: record.text, state: record.state,
            isEdited: record.isEdited, chunks: record.chunks, replyTo: record.replyTo, sentAt: record.sentAt,
            finishReason: record.finishReason, interruptedReason: record.interruptedReason, reactions: reactions)
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func user() throws -> UserID {
        guard let user = UserID(String(decoding: self, as: UTF8.self)) else { throw EngineError("damaged key") }
        return user
    }
}
