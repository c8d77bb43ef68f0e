/// Where a JSON value stands in its text, and what it is. A string's range leaves its quotes out.
struct JSONValue {
    enum Kind: UInt8 { case absent, null, `true`, `false`, integer, float, string, object, array }

    var start: Int
    var end: Int
    var kind: Kind
    /// Whether a string holds escapes, so that its bytes are not yet its text.
    var isEscaped = false

    static let absent = JSONValue(start: 0, end: 0, kind: .absent)

    /// Whether it is missing or `null`: what Python's `get(key) is None` asks.
    var isNone: Bool { kind == .absent || kind == .null }
}
