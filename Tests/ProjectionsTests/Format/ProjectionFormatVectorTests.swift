import Foundation
import Testing

@testable import EventLog
@testable import Projections

/// What is on disk stays readable: the file is never changed but with a new version of the projection. (`make docs-vectors` writes it.)
@Suite("Format vectors of projections", .serialized) struct ProjectionFormatVectorTests {
    /// A compressed page: another zstd may compress otherwise, so that readers must agree, writers need not.
    private static func isCompressed(_ bytes: String?) -> Bool { bytes?.hasPrefix("01") ?? false }

    @Test("rows' keys and bytes are those of their vectors") func writing() throws {
        let made = try VectorTalk.make()
        if RowVectors.isWriting { try made.write() }
        var file = try RowVectors.read()
        #expect(file.pages.contains { Self.isCompressed($0.bytes) } && file.pages.contains { !Self.isCompressed($0.bytes) })
        for index in file.pages.indices where Self.isCompressed(file.pages[index].bytes) && index < made.pages.count {
            file.pages[index].bytes = made.pages[index].bytes
        }
        #expect(made == file)
    }

    @Test("bytes of the vectors are read as what they say") func reading() throws {
        let file = try RowVectors.read()
        for vector in file.records {
            let (key, bytes) = try Self.bytes(vector.key, vector.bytes)
            #expect(key == FoldRecord.key(vector.projection))
            let record = try Self.opening(key, bytes) { try FoldRecord(decoding: $0) }
            #expect(RowVectors.Record(vector.projection, record, key: key, bytes: bytes) == vector)
        }
        for vector in file.conversations {
            let (key, bytes) = try Self.bytes(vector.key, vector.bytes)
            let row = try Self.row(ConversationRow.self, key, bytes)
            let id = try #require(ConversationID(vector.id))
            #expect(key == [0] + id.keyBytes)
            #expect(try RowVectors.Conversation(id, row, key: key, bytes: bytes) == vector)
        }
        for vector in file.pages {
            let (key, bytes) = try Self.bytes(vector.key ?? "", vector.bytes ?? "")
            let place = try #require(Self.key(PageKey.self, key, 1))
            #expect(try RowVectors.Page(Self.row(PageRow.self, key, bytes), place, key: key, bytes: bytes) == vector)
        }
        for vector in file.members {
            let (key, bytes) = try Self.bytes(vector.key, vector.bytes)
            let user = try #require(UserID(vector.user))
            let place = try #require(Self.key(MemberKey.self, key, 2))
            #expect(try place == MemberKey(UserHash(user), #require(ConversationID(vector.conversation))))
            #expect(try VectorTalk.describe(user, place, Self.row(MemberRow.self, key, bytes), key: key, bytes: bytes) == vector)
        }
        for vector in file.streams {
            let (key, bytes) = try Self.bytes(vector.key, vector.bytes)
            let place = try #require(Self.key(PageKey.self, key, 3))
            #expect(try VectorTalk.describe(place, Self.row(StreamRow.self, key, bytes), key: key, bytes: bytes) == vector)
        }
    }

    @Test("a row that is cut short, or has more behind it, is refused, never misread (I7)") func wrong() throws {
        let file = try RowVectors.read()
        for vector in file.conversations {
            let (key, bytes) = try Self.bytes(vector.key, vector.bytes)
            #expect(throws: EventLogError.self) { try Self.row(ConversationRow.self, key, bytes.dropLast()) }
            let value = Array(bytes.dropLast(8))
            for length in 0..<value.count where length % 7 == 0 {
                #expect(throws: (any Error).self) { try Self.messages(of: Array(value[..<length])) }
            }
            #expect(throws: (any Error).self) { try Self.messages(of: value + [0]) }
        }
    }

    /// Reads a conversation's row, and its open page, which is only looked into when it is asked.
    private static func messages(of value: [UInt8]) throws -> Int {
        try value.withUnsafeBytes { bytes in
            var reader = RowReader(bytes)
            var count = 0
            try ConversationRow(decoding: &reader).open.forEach { _ in
                count += 1
                return true
            }
            return count
        }
    }

    private static func bytes(_ key: String, _ bytes: String) throws -> ([UInt8], [UInt8]) { (try #require(Hex.decode(key)), try #require(Hex.decode(bytes))) }

    private static func opening<R>(_ key: [UInt8], _ bytes: some Collection<UInt8>, _ body: (UnsafeRawBufferPointer) throws -> R) throws -> R {
        try Array(bytes).withUnsafeBytes { try body(Archive.open(key, $0, "a vector")) }
    }

    private static func row<Row: TableRow>(_ type: Row.Type, _ key: [UInt8], _ bytes: some Collection<UInt8>) throws -> Row {
        try opening(key, bytes) { value in
            var reader = RowReader(value)
            let row = try Row(decoding: &reader)
            #expect(reader.isAtEnd)
            return row
        }
    }

    private static func key<Key: TableKey>(_ type: Key.Type, _ bytes: [UInt8], _ prefix: UInt8) -> Key? {
        #expect(bytes.first == prefix)
        return bytes.withUnsafeBytes { Key(keyBytes: UnsafeRawBufferPointer(rebasing: $0.dropFirst())) }
    }
}
