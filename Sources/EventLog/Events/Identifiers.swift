/// A 128-bit identifier (a UUID), ordered and hashed by its bytes.
///
/// The tag keeps identifiers of different things apart: a `MessageID` is not a `ConversationID`.
public struct Identifier<Tag>: Hashable, Comparable, Sendable {
    /// The first eight bytes, big-endian.
    public let high: UInt64
    /// The last eight bytes, big-endian.
    public let low: UInt64

    @inlinable public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Reads sixteen bytes; `nil` if there are not just sixteen.
    @inlinable public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        for (index, byte) in bytes.enumerated() {
            if index < 8 { high = high << 8 | UInt64(byte) } else { low = low << 8 | UInt64(byte) }
        }
        self.init(high: high, low: low)
    }

    /// What `Dictionary` and `Set` place it by: a product of its halves with secrets of this process, folded (Wang Yi's wyhash). Whoever makes identifiers
    /// neither knows the secrets nor sees a hash, so cannot make many that collide. SipHash took a tenth of an append (`perf`, 4096 events a commit).
    public func _rawHashValue(seed: Int) -> Int {
        let secrets = HashSecrets.ofProcess
        // A table's own seed goes into one factor, not onto the product: or one table's order would be another's.
        let product = (high ^ secrets.first).multipliedFullWidth(by: low ^ secrets.second &+ UInt64(bitPattern: Int64(seed)) &* secrets.third)
        return Int(truncatingIfNeeded: product.high ^ product.low)
    }

    @inlinable public static func < (left: Self, right: Self) -> Bool {
        (left.high, left.low) < (right.high, right.low)
    }

    /// The sixteen bytes, in order.
    public var bytes: [UInt8] { withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { Array($0) } }

    /// A UUID of version 8 (RFC 9562) made of the first sixteen bytes of a digest.
    public init(digest: some Sequence<UInt8>) {
        let raw = Self(bytes: Array(digest.prefix(16)))!
        self.init(high: raw.high & ~0xF000 | 0x8000, low: raw.low & ~(0b11 << 62) | (0b10 << 62))
    }

    /// A random UUID of version 4.
    public static func random() -> Self {
        Self(high: Randomness.next() & ~0xF000 | 0x4000, low: Randomness.next() & ~(0b11 << 62) | (0b10 << 62))
    }
}

private struct HashSecrets {
    let first, second, third: UInt64

    /// `Hasher` is keyed anew by each process, but for one that is to walk its tables in the same order each time (`SWIFT_DETERMINISTIC_HASHING`, as
    /// `simulate` sets it).
    static let ofProcess = {
        func secret(_ number: Int) -> UInt64 {
            var hasher = Hasher()
            hasher.combine(number)
            return UInt64(bitPattern: Int64(hasher.finalize()))
        }
        return HashSecrets(first: secret(1), second: secret(2), third: secret(3) | 1)
    }()
}

extension Identifier: CustomStringConvertible {
    /// The hyphenated form in lower case.
    public var description: String {
        String(unsafeUninitializedCapacity: 36) { buffer in
            var at = 0
            for index in 0..<16 {
                if index == 4 || index == 6 || index == 8 || index == 10 {
                    buffer[at] = UInt8(ascii: "-")
                    at += 1
                }
                let word = index < 8 ? high : low
                let byte = UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * (index & 7)))
                buffer[at] = hexDigit(byte >> 4)
                buffer[at + 1] = hexDigit(byte & 15)
                at += 2
            }
            return 36
        }
    }

    /// Reads the hyphenated form, in either case; `nil` for anything else.
    public init?(_ text: some StringProtocol) {
        var copy = String(text)
        let parsed = copy.withUTF8 { Self(utf8: UnsafeRawBufferPointer($0)) }
        guard let parsed else { return nil }
        self = parsed
    }

    /// Reads the 36 bytes of the hyphenated form, in either case.
    public init?(utf8 bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 36 else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        var digits = 0
        for index in 0..<36 {
            let byte = bytes[index]
            if index == 8 || index == 13 || index == 18 || index == 23 {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let value: UInt8
            switch byte {
            case 0x30...0x39: value = byte - 0x30
            case 0x61...0x66: value = byte - 0x61 + 10
            case 0x41...0x46: value = byte - 0x41 + 10
            default: return nil
            }
            if digits < 16 { high = high << 4 | UInt64(value) } else { low = low << 4 | UInt64(value) }
            digits += 1
        }
        self.init(high: high, low: low)
    }
}

@inline(__always) private func hexDigit(_ nibble: UInt8) -> UInt8 {
    nibble < 10 ? 0x30 + nibble : 0x57 + nibble
}

public enum ConversationTag {}
public enum MessageTag {}
public enum ReplicaTag {}
public enum StoreTag {}

/// Names a conversation; made by whoever creates it.
public typealias ConversationID = Identifier<ConversationTag>
/// Names a message, uniquely within its conversation; made by its author's device.
public typealias MessageID = Identifier<MessageTag>
/// Names a replica: a store or an import that makes events.
public typealias ReplicaID = Identifier<ReplicaTag>
/// Names a store.
public typealias StoreID = Identifier<StoreTag>

/// A user's name as accounts elsewhere know it: 1 to 255 bytes of UTF-8, compared, hashed and ordered by those bytes.
public struct UserID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public static let bytesMax = 255
    public let string: String

    /// `nil` if the name is empty or longer than 255 bytes of UTF-8.
    public init?(_ string: String) {
        var string = string
        string.makeContiguousUTF8()
        guard 1...Self.bytesMax ~= string.utf8.count else { return nil }
        self.string = string
    }

    public var description: String { string }

    // Swift's own `==` on String is canonical equivalence: two names that differ in bytes would be one user.
    public static func == (left: Self, right: Self) -> Bool {
        var left = left.string
        var right = right.string
        guard left.utf8.count == right.utf8.count else { return false }
        return left.withUTF8 { a in right.withUTF8 { b in UnsafeRawBufferPointer(a).isEqual(to: UnsafeRawBufferPointer(b)) } }
    }

    public static func < (left: Self, right: Self) -> Bool {
        compareBytes(left.string, right.string) < 0
    }

    public func hash(into hasher: inout Hasher) {
        var copy = string
        copy.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

/// Orders two texts by their UTF-8 bytes: negative, zero or positive.
package func compareBytes(_ left: String, _ right: String) -> Int {
    var left = left
    var right = right
    return left.withUTF8 { a in
        right.withUTF8 { b in
            for index in 0..<min(a.count, b.count) where a[index] != b[index] { return Int(a[index]) - Int(b[index]) }
            return a.count - b.count
        }
    }
}

/// A log: the events of one conversation, or what concerns one user only (DESIGN: `preference.set`).
public enum LogID: Hashable, Comparable, Sendable, CustomStringConvertible {
    case conversation(ConversationID)
    case user(UserID)

    /// Conversations first; by their bytes.
    public static func < (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.conversation(let left), .conversation(let right)): left < right
        case (.user(let left), .user(let right)): left < right
        case (.conversation, .user): true
        case (.user, .conversation): false
        }
    }

    public var description: String {
        switch self {
        case .conversation(let id): id.description
        case .user(let user): "user:" + user.string
        }
    }
}

/// The number of an event in its log: 1, 2, 3 … without holes (I2).
public typealias Seq = UInt64
/// The place of an event in a store's order of commits: 1, 2, 3 …; a store's own, never shipped.
public typealias Position = UInt64
