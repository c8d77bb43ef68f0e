/// Thirty-two bytes: a SHA-256 digest, or a secret or seed of that size.
///
/// Held in place as four words, so that hashing trees allocates nothing of ours. The words are the bytes as they lie in memory,
/// not numbers.
public struct Hash256: Hashable, Sendable {
    public static let byteCount = 32

    private var words: (UInt64, UInt64, UInt64, UInt64)

    /// Thirty-two zero bytes.
    package init() { words = (0, 0, 0, 0) }

    /// Copies just thirty-two bytes; `nil` for any other count.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == Self.byteCount else { return nil }
        self.init(unchecked: bytes)
    }

    /// Copies just thirty-two bytes; `nil` for any other count.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.init()
        Swift.withUnsafeMutableBytes(of: &words) { $0.copyBytes(from: bytes) }
    }

    /// Reads the standard base64 form (44 characters); `nil` for anything else.
    public init?(base64 text: some StringProtocol) {
        guard text.utf8.count == 44, let bytes = Base64.decode(text), let hash = Self(bytes: bytes) else { return nil }
        self = hash
    }

    /// Reads 64 hexadecimal digits, in either case; `nil` for anything else.
    public init?(hex text: some StringProtocol) {
        guard text.utf8.count == 64, let bytes = Hex.decode(text), let hash = Self(bytes: bytes) else { return nil }
        self = hash
    }

    /// Lends the thirty-two bytes to be written.
    init(_ fill: (UnsafeMutableRawBufferPointer) -> Void) {
        self.init()
        Swift.withUnsafeMutableBytes(of: &words, fill)
    }

    @inline(__always) private init(unchecked bytes: UnsafeRawBufferPointer) {
        words = (
            bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
            bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self)
        )
    }

    /// A fresh secret from the system's generator.
    package static func random() -> Self {
        var result = Self()
        result.words = (Randomness.next(), Randomness.next(), Randomness.next(), Randomness.next())
        return result
    }

    /// The SHA-256 of some bytes.
    package static func of(_ bytes: UnsafeRawBufferPointer) -> Self {
        var hasher = SHA256Hasher()
        hasher.update(bytes)
        return hasher.finalize()
    }

    /// Lends the thirty-two bytes.
    @inline(__always) package func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try Swift.withUnsafeBytes(of: words, body)
    }

    /// Writes the thirty-two bytes at an offset.
    @inline(__always) package func store(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) {
        buffer.storeBytes(of: words.0, toByteOffset: offset, as: UInt64.self)
        buffer.storeBytes(of: words.1, toByteOffset: offset + 8, as: UInt64.self)
        buffer.storeBytes(of: words.2, toByteOffset: offset + 16, as: UInt64.self)
        buffer.storeBytes(of: words.3, toByteOffset: offset + 24, as: UInt64.self)
    }

    public var bytes: [UInt8] { withUnsafeBytes { [UInt8]($0) } }
    public var base64: String { withUnsafeBytes { Base64.encode($0) } }
    public var hex: String { withUnsafeBytes { Hex.encode($0) } }

    public static func == (left: Self, right: Self) -> Bool { left.words == right.words }

    public func hash(into hasher: inout Hasher) {
        withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

extension Hash256: CustomStringConvertible {
    public var description: String { hex }
}
