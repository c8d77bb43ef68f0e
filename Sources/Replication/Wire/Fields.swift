package import EventLog

/// The fields of a protobuf message, found once and asked for by number. Where a field that is not repeated comes twice, the last counts.
package struct Fields {
    private enum Value {
        case number(UInt64)
        case fixed(UInt64)
        case bytes(UnsafeRawBufferPointer)
        /// Of a wire type that no known field has.
        case other
    }
    /// Whether a field that was asked for has another wire type: the message cannot be read. Shared with the messages inside.
    private final class Mistake { var isMade = false }
    private let mistake: Mistake
    private var values: [(field: UInt64, value: Value)] = []

    private static let countMax = 1 << 17

    /// The bytes must outlive the value.
    package init(_ bytes: UnsafeRawBufferPointer) throws { try self.init(bytes, Mistake()) }

    /// Reads a message, all of whose fields have the wire types of those that `read` asks for.
    package static func read<T>(_ bytes: UnsafeRawBufferPointer, _ read: (Fields) throws -> T) throws -> T {
        let fields = try Fields(bytes)
        let result = try read(fields)
        if fields.mistake.isMade { throw CodecError(.badField) }
        return result
    }

    private init(_ bytes: UnsafeRawBufferPointer, _ mistake: Mistake) throws {
        self.mistake = mistake
        var reader = ByteReader(bytes)
        while !reader.isAtEnd {
            // A field of two bytes costs forty here: a message made of nothing else must not cost much more than itself.
            guard values.count < Self.countMax else { throw CodecError(.tooLarge) }
            let tag = try reader.varint()
            guard tag >> 3 > 0 else { throw CodecError(.badField) }
            switch tag & 7 {
            case 0: values.append((tag >> 3, .number(try reader.varint())))
            case 1: values.append((tag >> 3, .fixed(try reader.fixed64())))
            case 2: values.append((tag >> 3, .bytes(try reader.lengthPrefixed())))
            case 5:
                _ = try reader.fixed32()
                values.append((tag >> 3, .other))
            default: throw CodecError(.badField)
            }
        }
    }

    package func has(_ field: UInt64) -> Bool { values.contains { $0.field == field } }

    package func number(_ field: UInt64) -> UInt64 {
        guard let value = last(field) else { return 0 }
        if case .number(let number) = value { return number }
        mistake.isMade = true
        return 0
    }

    package func fixed64(_ field: UInt64) -> UInt64 {
        guard let value = last(field) else { return 0 }
        if case .fixed(let number) = value { return number }
        mistake.isMade = true
        return 0
    }

    private func last(_ field: UInt64) -> Value? { values.last { $0.field == field }?.value }

    /// A seq or a log's size, which can be counted on from.
    package func seq(_ field: UInt64) throws -> Seq {
        let value = number(field)
        guard value <= WireLimits.seqMax else { throw CodecError(.badValue) }
        return value
    }

    private func raw(_ field: UInt64) -> UnsafeRawBufferPointer {
        guard let value = last(field) else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        if case .bytes(let bytes) = value { return bytes }
        mistake.isMade = true
        return UnsafeRawBufferPointer(start: nil, count: 0)
    }

    package func bytes(_ field: UInt64) -> [UInt8] { Array(raw(field)) }

    package func all(_ field: UInt64) -> [[UInt8]] {
        values.compactMap { entry in
            guard entry.field == field else { return nil }
            guard case .bytes(let value) = entry.value else {
                mistake.isMade = true
                return nil
            }
            return Array(value)
        }
    }

    package func text(_ field: UInt64) throws -> String { try EventLog.text(of: raw(field)) }

    package func user(_ field: UInt64) throws -> UserID {
        guard let user = UserID(try text(field)) else { throw CodecError(.badValue) }
        return user
    }

    package func identifier<Tag>(_ field: UInt64) throws -> Identifier<Tag> {
        guard let id = Identifier<Tag>(bytes: raw(field)) else { throw CodecError(.badValue) }
        return id
    }

    package func identifiers<Tag>(_ field: UInt64) throws -> [Identifier<Tag>] {
        try all(field).map { bytes in
            guard let id = Identifier<Tag>(bytes: bytes) else { throw CodecError(.badValue) }
            return id
        }
    }

    package func users(_ field: UInt64) throws -> [UserID] {
        try all(field).map { bytes in
            guard let user = UserID(try bytes.withUnsafeBytes { try EventLog.text(of: $0) }) else { throw CodecError(.badValue) }
            return user
        }
    }

    package func hash(_ field: UInt64) throws -> Hash256 {
        guard let hash = Hash256(bytes: bytes(field)) else { throw CodecError(.badValue) }
        return hash
    }

    package func message(_ field: UInt64) throws -> Fields { try Fields(raw(field), mistake) }

    package func messages<T>(_ field: UInt64, _ make: (Fields) throws -> T) throws -> [T] {
        var result: [T] = []
        for entry in values where entry.field == field {
            guard case .bytes(let value) = entry.value else { throw CodecError(.badField) }
            result.append(try make(Fields(value, mistake)))
        }
        return result
    }

    /// A log is a conversation's 16 bytes in field 1, or a user's name in field 2: just one of them.
    package func log() throws -> LogID {
        guard has(1) != has(2) else { throw CodecError(.badValue) }
        return has(1) ? .conversation(try identifier(1)) : .user(try user(2))
    }

    /// Many: conversations in one field, users in another.
    package func logs(conversations: UInt64, users: UInt64) throws -> [LogID] {
        try identifiers(conversations).map { .conversation($0) } + self.users(users).map { .user($0) }
    }

    package func head(_ field: UInt64) throws -> LogHead {
        let fields = try message(field)
        return LogHead(size: try fields.seq(1), root: try fields.hash(2))
    }
}

/// Writing them.
extension ByteBuffer {
    /// Fields that hold their default are left out.
    mutating func put(number field: Int, _ value: UInt64) {
        if value == 0 { return }
        put(varint: UInt64(field) << 3)
        put(varint: value)
    }

    mutating func put(fixed field: Int, _ value: UInt64) {
        if value == 0 { return }
        put(varint: UInt64(field) << 3 | 1)
        put(fixed64: value)
    }

    mutating func put(bytes field: Int, _ value: [UInt8]) {
        if value.isEmpty { return }
        put(varint: UInt64(field) << 3 | 2)
        put(varint: UInt64(value.count))
        put(value)
    }

    mutating func put(text field: Int, _ value: String) {
        if value.isEmpty { return }
        put(varint: UInt64(field) << 3 | 2)
        put(lengthOf: value)
    }

    mutating func put(message field: Int, _ body: (inout ByteBuffer) -> Void) {
        var inner = ByteBuffer(capacity: 128)
        body(&inner)
        put(varint: UInt64(field) << 3 | 2)
        put(varint: UInt64(inner.count))
        put(inner.bytes)
    }

    mutating func put(log: LogID) {
        switch log {
        case .conversation(let id): put(bytes: 1, id.bytes)
        case .user(let user): put(text: 2, user.string)
        }
    }

    mutating func put(_ logs: [LogID], conversations: Int, users: Int) {
        for log in logs {
            switch log {
            case .conversation(let id): put(bytes: conversations, id.bytes)
            case .user(let user): put(text: users, user.string)
            }
        }
    }

    mutating func put(head field: Int, _ head: LogHead) {
        put(message: field) {
            $0.put(number: 1, head.size)
            $0.put(bytes: 2, head.root.bytes)
        }
    }
}
