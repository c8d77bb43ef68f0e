public import EventLog

/// What a projection's table keeps under a key.
public protocol TableRow: Sendable {
    /// Reads what `encode` wrote; throws for anything else.
    init(decoding reader: inout RowReader) throws
    func encode(into writer: inout RowWriter)
    /// About how many bytes of memory the row takes, beyond its own size.
    var memoryBytes: Int { get }
    /// The same row in the form in which it is best kept while it does not change; `nil` if it is in it.
    func packed() -> Self?
}

extension TableRow {
    public var memoryBytes: Int { 64 }
    public func packed() -> Self? { nil }
}

/// A row's key: rows are kept in the order of their keys' bytes.
public protocol TableKey: Hashable, Sendable {
    /// At most 480 bytes, different for different keys.
    var keyBytes: [UInt8] { get }
    /// How many `keyBytes` are.
    var keyByteCount: Int { get }
    /// Reads `keyBytes` back.
    init?(keyBytes: UnsafeRawBufferPointer)
    static func isAscending(_ left: Self, _ right: Self) -> Bool
    /// The first eight of `keyBytes`, big-endian (zeros where there are fewer): most keys differ in them, so they sort quickly.
    var sortPrefix: UInt64 { get }
    /// Any bits of the key that differ between keys: they say which lock guards a row.
    var lockBits: UInt64 { get }
}

extension TableKey {
    public var keyByteCount: Int { keyBytes.count }
    public var lockBits: UInt64 { UInt64(bitPattern: Int64(hashValue)) }
    public var sortPrefix: UInt64 {
        var bytes = keyBytes.prefix(8)
        while bytes.count < 8 { bytes.append(0) }
        return bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }
    public static func isAscending(_ left: Self, _ right: Self) -> Bool { left.keyBytes.lexicographicallyPrecedes(right.keyBytes) }
}

extension Identifier: TableKey {
    public var keyBytes: [UInt8] { bytes }
    public var keyByteCount: Int { 16 }
    public init?(keyBytes: UnsafeRawBufferPointer) { self.init(bytes: keyBytes) }
    public static func isAscending(_ left: Self, _ right: Self) -> Bool { left < right }
    public var lockBits: UInt64 { low }
    public var sortPrefix: UInt64 { high }
}

/// Writes a row's bytes: compact, the same for the same row.
public struct RowWriter: ~Copyable {
    package var out: ByteBuffer

    package init(_ out: consuming ByteBuffer) { self.out = out }

    @inline(__always) public mutating func put(_ value: UInt64) { out.put(varint: value) }
    @inline(__always) public mutating func put(byte: UInt8) { out.put(byte: byte) }
    /// Eight bytes, for values that are large as a rule.
    @inline(__always) public mutating func put(fixed value: UInt64) { out.put(fixed64: value) }
    @inline(__always) public mutating func put(_ text: String) { out.put(lengthOf: text) }
    @inline(__always) public mutating func put<Tag>(_ id: Identifier<Tag>) { out.put(id) }
    public mutating func put(_ text: String?) {
        guard let text else { return put(byte: 0) }
        put(byte: 1)
        put(text)
    }
}

/// Reads a row's bytes back; every read is checked against the end.
///
/// Does itself what `ByteReader` does: what is not public is not inlined into another module, and of a page on a screen every byte is read here.
public struct RowReader {
    private let bytes: UnsafeRawBufferPointer
    package private(set) var offset = 0

    package init(_ bytes: UnsafeRawBufferPointer, from offset: Int = 0) {
        precondition(0...bytes.count ~= offset)
        self.bytes = bytes
        self.offset = offset
    }

    public var isAtEnd: Bool { offset == bytes.count }
    @inline(__always) private var remaining: Int { bytes.count - offset }

    /// A minimal varint of at most 64 bits.
    @inline(__always) public mutating func value() throws -> UInt64 {
        guard offset < bytes.count else { throw CodecError(.truncated) }
        let first = bytes[offset]
        if first >= 0x80 { return try longValue() }
        offset += 1
        return UInt64(first)
    }

    private mutating func longValue() throws -> UInt64 {
        var reader = ByteReader(bytes)
        reader.offset = offset
        defer { offset = reader.offset }
        return try reader.longVarint()
    }

    /// What `put(zigzag:)` wrote.
    @inline(__always) mutating func signed() throws -> Int64 {
        let raw = try value()
        return Int64(bitPattern: raw >> 1) ^ -Int64(bitPattern: raw & 1)
    }

    @inline(__always) public mutating func byte() throws -> UInt8 {
        guard offset < bytes.count else { throw CodecError(.truncated) }
        defer { offset += 1 }
        return bytes[offset]
    }

    @inline(__always) public mutating func fixed() throws -> UInt64 {
        guard remaining >= 8 else { throw CodecError(.truncated) }
        defer { offset += 8 }
        return UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    @inline(__always) public mutating func identifier<Tag>() throws -> Identifier<Tag> {
        guard remaining >= 16 else { throw CodecError(.truncated) }
        defer { offset += 16 }
        return Identifier(
            high: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)),
            low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self)))
    }

    /// A length and so many bytes.
    @inline(__always) mutating func lengthPrefixed() throws -> UnsafeRawBufferPointer { try take(value()) }

    @inline(__always) mutating func take(_ count: UInt64) throws -> UnsafeRawBufferPointer {
        guard count <= UInt64(remaining) else { throw CodecError(.truncated) }
        defer { offset += Int(count) }
        return UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + Int(count)])
    }

    /// What has not been read yet.
    mutating func rest() -> UnsafeRawBufferPointer {
        defer { offset = bytes.count }
        return UnsafeRawBufferPointer(rebasing: bytes[offset...])
    }

    /// Trusts the checksum for the validity of the text, and repairs rather than trap.
    public mutating func text() throws -> String { trustedText(of: try lengthPrefixed()) }

    /// A number below 2^31: there is always room for a few more.
    @inline(__always) mutating func value32() throws -> UInt32 {
        guard let value = UInt32(exactly: try value()), value < 1 << 31 else { throw CodecError(.badValue) }
        return value
    }

    public mutating func optionalText() throws -> String? { try byte() == 0 ? nil : text() }
    public mutating func user() throws -> UserID {
        guard let user = UserID(try text()) else { throw CodecError(.badValue) }
        return user
    }
    /// A number of things that follow, each of at least one byte.
    public mutating func count() throws -> Int {
        let value = try value()
        guard value <= UInt64(remaining) else { throw CodecError(.truncated) }
        return Int(value)
    }
}
