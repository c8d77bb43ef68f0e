internal import EventLog

/// What a user prefers of a conversation (`pinned`, `muted`, a draft …), ascending by the keys' bytes.
///
/// Not a dictionary: Swift's strings are equal when they look the same, keys when their bytes are.
public struct Preferences: Sendable, Hashable, Sequence, ExpressibleByDictionaryLiteral {
    public struct Element: Sendable, Hashable {
        public var key: String
        public var value: String
    }
    private var elements: [Element] = []

    /// Pairs in ascending order of their keys' bytes.
    init(ascending elements: [Element]) { self.elements = elements }

    public init(dictionaryLiteral pairs: (String, String)...) {
        elements = pairs.map { Element(key: $0.0, value: $0.1) }.sorted { compareBytes($0.key, $1.key) < 0 }
    }

    public var isEmpty: Bool { elements.isEmpty }
    public var count: Int { elements.count }
    public func makeIterator() -> IndexingIterator<[Element]> { elements.makeIterator() }

    public subscript(key: String) -> String? { elements.first { compareBytes($0.key, key) == 0 }?.value }

    /// As a dictionary of what the closure makes of the values.
    public func mapValues<T>(_ transform: (String) -> T) -> [String: T] {
        Dictionary(elements.map { ($0.key, transform($0.value)) }, uniquingKeysWith: { $1 })
    }
}
