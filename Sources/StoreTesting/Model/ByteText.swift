/// A text that is what its bytes are: equal, ordered and hashed by them.
package struct ByteText: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let bytes: [UInt8]

    package init(_ string: String) { bytes = Array(string.utf8) }

    package var description: String { String(decoding: bytes, as: UTF8.self) }

    package static func < (left: Self, right: Self) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }
}
