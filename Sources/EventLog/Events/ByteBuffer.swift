#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A growing buffer of bytes for encoders: one allocation, reused.
package struct ByteBuffer: ~Copyable {
    package private(set) var base: UnsafeMutableRawPointer
    package private(set) var count = 0
    private var capacity: Int

    package init(capacity: Int = 1024) {
        self.capacity = max(capacity, 64)
        base = UnsafeMutableRawPointer.allocate(byteCount: self.capacity, alignment: 16)
    }

    deinit { base.deallocate() }

    package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    package func array() -> [UInt8] { Array(bytes) }

    package mutating func removeAll() { count = 0 }

    /// Forgets what was written after the first `length` bytes.
    package mutating func truncate(to length: Int) {
        precondition(length <= count)
        count = length
    }

    @inline(__always) package mutating func reserve(_ more: Int) {
        if count + more > capacity { grow(more) }
    }

    @inline(never) private mutating func grow(_ more: Int) {
        let wanted = max(capacity * 2, count + more)
        let new = UnsafeMutableRawPointer.allocate(byteCount: wanted, alignment: 16)
        new.copyMemory(from: base, byteCount: count)
        base.deallocate()
        base = new
        capacity = wanted
    }

    @inline(__always) package mutating func put(byte: UInt8) {
        reserve(1)
        base.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
        count += 1
    }

    /// A base-128 varint, minimal, least significant group first (Protocol Buffers).
    @inline(__always) package mutating func put(varint value: UInt64) {
        reserve(10)
        var value = value
        while value >= 0x80 {
            base.storeBytes(of: UInt8(truncatingIfNeeded: value) | 0x80, toByteOffset: count, as: UInt8.self)
            count += 1
            value >>= 7
        }
        base.storeBytes(of: UInt8(truncatingIfNeeded: value), toByteOffset: count, as: UInt8.self)
        count += 1
    }

    /// A signed value as a varint whose lowest bit is the sign.
    @inline(__always) package mutating func put(zigzag value: Int64) {
        put(varint: UInt64(bitPattern: (value << 1) ^ (value >> 63)))
    }

    @inline(__always) package mutating func put(fixed64 value: UInt64) {
        reserve(8)
        base.storeBytes(of: value.littleEndian, toByteOffset: count, as: UInt64.self)
        count += 8
    }

    @inline(__always) package mutating func put(fixed32 value: UInt32) {
        reserve(4)
        base.storeBytes(of: value.littleEndian, toByteOffset: count, as: UInt32.self)
        count += 4
    }

    @inline(__always) package mutating func put<Tag>(_ id: Identifier<Tag>) {
        reserve(16)
        base.storeBytes(of: id.high.bigEndian, toByteOffset: count, as: UInt64.self)
        base.storeBytes(of: id.low.bigEndian, toByteOffset: count + 8, as: UInt64.self)
        count += 16
    }

    @inline(__always) package mutating func put(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
        reserve(bytes.count)
        (base + count).copyMemory(from: start, byteCount: bytes.count)
        count += bytes.count
    }

    package mutating func put(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { put($0) }
    }

    /// The bytes of a text, without a length.
    @inline(__always) package mutating func put(utf8 text: String) {
        let length = text.utf8.count
        reserve(length)
        let target = base + count
        let copied: Void? = text.utf8.withContiguousStorageIfAvailable { source in
            if let start = source.baseAddress { target.copyMemory(from: start, byteCount: length) }
        }
        if copied == nil { for (offset, byte) in text.utf8.enumerated() { target.storeBytes(of: byte, toByteOffset: offset, as: UInt8.self) } }
        count += length
    }

    package mutating func put(lengthOf text: String) {
        put(varint: UInt64(text.utf8.count))
        put(utf8: text)
    }

    /// Counts bytes that were written behind the end, within the reserved room.
    mutating func advance(_ written: Int) {
        precondition(written >= 0 && count + written <= capacity)
        count += written
    }

    /// Overwrites bytes already there.
    package mutating func set(fixed64 value: UInt64, at offset: Int) {
        precondition(offset + 8 <= count)
        base.storeBytes(of: value.littleEndian, toByteOffset: offset, as: UInt64.self)
    }

    package mutating func set(fixed32 value: UInt32, at offset: Int) {
        precondition(offset + 4 <= count)
        base.storeBytes(of: value.littleEndian, toByteOffset: offset, as: UInt32.self)
    }

    /// Pads with zeros to a multiple of `alignment`.
    package mutating func pad(to alignment: Int) {
        while count % alignment != 0 { put(byte: 0) }
    }
}

/// What is wrong with bytes that were to be decoded.
package struct CodecError: Error, Hashable, CustomStringConvertible {
    package enum Problem: Hashable { case truncated, overlongVarint, badUTF8, badField, notCanonical, badValue, tooLarge }
    package var problem: Problem
    package init(_ problem: Problem) { self.problem = problem }

    package var description: String {
        switch problem {
        case .truncated: "its bytes end too early"
        case .overlongVarint: "a number in it is longer than it may be"
        case .badUTF8: "a text in it is not UTF-8"
        case .badField: "it has a field that may not be there"
        case .notCanonical: "it is not in canonical form"
        case .badValue: "a value in it may not be"
        case .tooLarge: "it is larger than it may be"
        }
    }
}

/// Reads bytes in order; every read is checked against the end.
package struct ByteReader {
    package let bytes: UnsafeRawBufferPointer
    package var offset = 0

    @inline(__always) package init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    @inline(__always) package var isAtEnd: Bool { offset == bytes.count }
    @inline(__always) package var remaining: Int { bytes.count - offset }

    @inline(__always) package mutating func byte() throws(CodecError) -> UInt8 {
        guard offset < bytes.count else { throw CodecError(.truncated) }
        defer { offset += 1 }
        return bytes[offset]
    }

    /// A minimal varint of at most 64 bits.
    @inline(__always) package mutating func varint() throws(CodecError) -> UInt64 {
        guard offset < bytes.count else { throw CodecError(.truncated) }
        let first = bytes[offset]
        if first < 0x80 {
            offset += 1
            return UInt64(first)
        }
        return try longVarint()
    }

    package mutating func longVarint() throws(CodecError) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while true {
            guard offset < bytes.count else { throw CodecError(.truncated) }
            let byte = bytes[offset]
            offset += 1
            if shift == 63, byte > 1 { throw CodecError(.overlongVarint) }
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 {
                if byte == 0, shift > 0 { throw CodecError(.overlongVarint) }
                return value
            }
            shift += 7
            if shift > 63 { throw CodecError(.overlongVarint) }
        }
    }

    @inline(__always) package mutating func zigzag() throws(CodecError) -> Int64 {
        let raw = try varint()
        return Int64(bitPattern: (raw >> 1)) ^ -Int64(bitPattern: raw & 1)
    }

    @inline(__always) package mutating func fixed64() throws(CodecError) -> UInt64 {
        guard remaining >= 8 else { throw CodecError(.truncated) }
        defer { offset += 8 }
        return UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    @inline(__always) package mutating func fixed32() throws(CodecError) -> UInt32 {
        guard remaining >= 4 else { throw CodecError(.truncated) }
        defer { offset += 4 }
        return UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    @inline(__always) package mutating func identifier<Tag>() throws(CodecError) -> Identifier<Tag> {
        guard remaining >= 16 else { throw CodecError(.truncated) }
        defer { offset += 16 }
        return Identifier(
            high: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)),
            low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self)))
    }

    @inline(__always) package mutating func take(_ count: Int) throws(CodecError) -> UnsafeRawBufferPointer {
        guard count >= 0, count <= remaining else { throw CodecError(.truncated) }
        defer { offset += count }
        return UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count])
    }

    /// A varint length and so many bytes.
    @inline(__always) package mutating func lengthPrefixed() throws(CodecError) -> UnsafeRawBufferPointer {
        let length = try varint()
        guard length <= UInt64(remaining) else { throw CodecError(.truncated) }
        return try take(Int(length))
    }

    package mutating func string() throws(CodecError) -> String {
        try text(of: lengthPrefixed())
    }

    package mutating func user() throws(CodecError) -> UserID {
        guard let user = UserID(try string()) else { throw CodecError(.badValue) }
        return user
    }
}

extension UnsafeRawBufferPointer {
    /// Whether the bytes are the same as others, of which there are as many.
    @inline(__always) package func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
        guard let start = baseAddress, let otherStart = other.baseAddress else { return true }
        return memcmp(start, otherStart, count) == 0
    }
}

/// Validates UTF-8 and copies it.
@inline(__always) package func text(of bytes: UnsafeRawBufferPointer) throws(CodecError) -> String {
    if bytes.isEmpty { return "" }
    guard let text = String(validating: bytes.bindMemory(to: UInt8.self), as: UTF8.self) else { throw CodecError(.badUTF8) }
    return text
}

/// Whether bytes are UTF-8.
package func isValidText(_ bytes: UnsafeRawBufferPointer) -> Bool {
    if #available(macOS 26, iOS 26, *) {
        return (try? UTF8Span(validating: bytes.bindMemory(to: UInt8.self).span)) != nil
    }
    return String(validating: bytes.bindMemory(to: UInt8.self), as: UTF8.self) != nil
}

/// Copies bytes of which `isValidText` was asked before, and which have not changed since.
package func validText(of bytes: UnsafeRawBufferPointer) -> String {
    if #available(macOS 26, iOS 26, *) {
        var span = UTF8Span(unchecked: bytes.bindMemory(to: UInt8.self).span)
        // Strings that are known to be ASCII are compared faster.
        _ = span.checkForASCII()
        return String(copying: span)
    }
    return String(decoding: bytes, as: UTF8.self)
}

extension UnsafeRawBufferPointer {
    /// Whether it is UTF-8; false, too, where that takes a text of its own to tell.
    @inline(__always) var isUTF8: Bool {
        if isASCII { return true }
        guard #available(macOS 26, iOS 26, *) else { return false }
        return (try? UTF8Span(validating: bindMemory(to: UInt8.self).span)) != nil
    }

    /// Whether no byte has its highest bit set; read eight at a time.
    @inline(__always) fileprivate var isASCII: Bool {
        let words = count & ~7
        var found: UInt64 = 0
        var offset = 0
        while offset < words {
            found |= loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            offset += 8
        }
        while offset < count {
            found |= UInt64(self[offset])
            offset += 1
        }
        return found & 0x8080_8080_8080_8080 == 0
    }
}

/// Copies bytes that were valid UTF-8 when they were accepted and whose checksum held: repairs, never traps, should they not be.
package func trustedText(of bytes: UnsafeRawBufferPointer) -> String {
    if #available(macOS 26, iOS 26, *) {
        let text = bytes.bindMemory(to: UInt8.self).span
        // Most texts are short pieces of an answer, of which the library's way to this takes longer than the copy.
        if bytes.isASCII { return String(copying: UTF8Span(unchecked: text, isKnownASCII: true)) }
        // Takes two thirds of the time of `decoding` where not all is ASCII.
        if let span = try? UTF8Span(validating: text) { return String(copying: span) }
    }
    return String(decoding: bytes, as: UTF8.self)
}
