/// A JSON text that is read where it lies: nothing is built, values are ranges of it.
///
/// It accepts what Python's `json.loads` accepts (`NaN`, `Infinity`, half surrogate pairs, a name twice) and refuses what
/// it refuses, nesting and digits beyond its limits included. Nesting costs no stack. The bytes must outlive the value.
struct JSONText {
    /// Levels of nesting: what Python's recursion limit of 1,000 leaves of them in fold.py.
    static let depthMax = 993
    /// Digits of an integer, as Python limits them.
    static let digitsMax = 4300

    let base: UnsafePointer<UInt8>
    let count: Int

    /// `bytes` must not be empty.
    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        base = bytes.baseAddress!
        count = bytes.count
    }

    /// The whole text's one value; `nil` if it is malformed or not alone.
    func root() -> JSONValue? {
        let start = skipSpace(0)
        guard let value = value(at: start, depth: 0), skipSpace(outerEnd(value)) == count else { return nil }
        return value
    }

    /// Reads the whole text as one object and tells each member, in order; `false` if it is malformed, not an object or not alone.
    @inline(__always)
    func rootObject(_ member: (_ name: JSONValue, _ value: JSONValue) -> Void) -> Bool {
        let start = skipSpace(0)
        guard start < count, base[start] == UInt8(ascii: "{"), let end = members(at: start, depth: 1, member) else { return false }
        return skipSpace(end) == count
    }

    /// Reads the object that opens at `start` and tells each member; answers the index after its brace.
    @inline(__always)
    func members(at start: Int, depth: Int = 1, _ member: (_ name: JSONValue, _ value: JSONValue) -> Void) -> Int? {
        var at = skipSpace(start + 1)
        if at < count, base[at] == UInt8(ascii: "}") { return at + 1 }
        while true {
            guard at < count, base[at] == UInt8(ascii: "\""), let name = string(at: at) else { return nil }
            at = skipSpace(name.end + 1)
            guard at < count, base[at] == UInt8(ascii: ":") else { return nil }
            guard let value = value(at: skipSpace(at + 1), depth: depth) else { return nil }
            member(name, value)
            at = skipSpace(outerEnd(value))
            guard at < count else { return nil }
            if base[at] == UInt8(ascii: "}") { return at + 1 }
            guard base[at] == UInt8(ascii: ",") else { return nil }
            at = skipSpace(at + 1)
        }
    }

    /// Tells each element of an array that was read as part of a well-formed text.
    func forEachElement(of array: JSONValue, _ body: (JSONValue) -> Void) {
        guard array.kind == .array else { return }
        var at = skipSpace(array.start + 1)
        while at < array.end, base[at] != UInt8(ascii: "]"), let value = value(at: at, depth: 1) {
            body(value)
            at = skipSpace(outerEnd(value))
            if at < array.end, base[at] == UInt8(ascii: ",") { at = skipSpace(at + 1) }
        }
    }

    /// The value of an object's member; of several of that name the last, `.absent` if there is none or `object` is no object.
    func member(_ name: StaticString, of object: JSONValue) -> JSONValue {
        var found = JSONValue.absent
        guard object.kind == .object else { return found }
        _ = members(at: object.start) { key, value in if spells(key, name) { found = value } }
        return found
    }

    /// The index after a value, a string's closing quote included.
    @inline(__always)
    func outerEnd(_ value: JSONValue) -> Int { value.kind == .string ? value.end + 1 : value.end }

    @inline(__always)
    func skipSpace(_ start: Int) -> Int {
        var at = start
        while at < count {
            let byte = base[at]
            if byte > 0x20 || !(byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09) { break }
            at += 1
        }
        return at
    }
}

// MARK: - Values

extension JSONText {
    /// The value that begins at `start`, inside `depth` open containers; `nil` if it is malformed.
    @inline(__always)
    func value(at start: Int, depth: Int) -> JSONValue? {
        guard start < count else { return nil }
        switch base[start] {
        case UInt8(ascii: "\""): return string(at: start)
        case UInt8(ascii: "{"): return container(at: start, outside: depth)
        case UInt8(ascii: "["): return container(at: start, outside: depth)
        default: return word(at: start)
        }
    }

    /// A number, or one of the words.
    func word(at start: Int) -> JSONValue? {
        switch base[start] {
        case UInt8(ascii: "t"): literal("true", at: start, .true)
        case UInt8(ascii: "f"): literal("false", at: start, .false)
        case UInt8(ascii: "n"): literal("null", at: start, .null)
        case UInt8(ascii: "N"): literal("NaN", at: start, .float)
        case UInt8(ascii: "I"): literal("Infinity", at: start, .float)
        case UInt8(ascii: "-"), 0x30...0x39: number(at: start)
        default: nil
        }
    }

    private func literal(_ word: StaticString, at start: Int, _ kind: JSONValue.Kind) -> JSONValue? {
        let end = start + word.utf8CodeUnitCount
        guard end <= count else { return nil }
        for index in 0..<word.utf8CodeUnitCount where base[start + index] != word.utf8Start[index] { return nil }
        return JSONValue(start: start, end: end, kind: kind)
    }

    private func number(at start: Int) -> JSONValue? {
        var at = start
        if base[at] == UInt8(ascii: "-") {
            at += 1
            if at < count, base[at] == UInt8(ascii: "I") {
                return literal("Infinity", at: at, .float).map { JSONValue(start: start, end: $0.end, kind: .float) }
            }
        }
        guard isDigit(at) else { return nil }
        let first = at
        if base[at] == 0x30 { at += 1 } else { while isDigit(at) { at += 1 } }
        let digits = at - first
        var kind = JSONValue.Kind.integer
        if at < count, base[at] == UInt8(ascii: "."), isDigit(at + 1) {
            at += 2
            kind = .float
            while isDigit(at) { at += 1 }
        }
        if at < count, base[at] | 0x20 == UInt8(ascii: "e") {
            let sign = at + 1 < count && (base[at + 1] == UInt8(ascii: "+") || base[at + 1] == UInt8(ascii: "-")) ? 1 : 0
            if isDigit(at + 1 + sign) {
                at += 2 + sign
                kind = .float
                while isDigit(at) { at += 1 }
            }
        }
        guard kind == .float || digits <= Self.digitsMax else { return nil }
        return JSONValue(start: start, end: at, kind: kind)
    }

    @inline(__always)
    private func isDigit(_ at: Int) -> Bool { at < count && base[at] &- 0x30 < 10 }

    /// Walks over an object or array with all that is in it: a bit a level instead of a stack frame.
    private func container(at start: Int, outside: Int) -> JSONValue? {
        var objects = SIMD16<UInt64>()  // Bit n: whether the n-th open container is an object.
        var depth = 0
        var at = start
        repeat {
            // A value begins here.
            let byte = at < count ? base[at] : 0
            if byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") {
                let isObject = byte == UInt8(ascii: "{")
                guard outside + depth < Self.depthMax else { return nil }
                let bit = UInt64(1) << UInt64(depth & 63)
                if isObject { objects[depth >> 6] |= bit } else { objects[depth >> 6] &= ~bit }
                depth += 1
                at = skipSpace(at + 1)
                guard at < count else { return nil }
                if base[at] != (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
                    guard !isObject || skipName(&at) else { return nil }
                    continue
                }
                depth -= 1
                at += 1
            } else {
                guard at < count, let scalar = byte == UInt8(ascii: "\"") ? string(at: at) : word(at: at) else { return nil }
                at = outerEnd(scalar)
            }
            // A value has ended: close what ends with it, up to the next comma.
            while depth > 0 {
                let isObject = objects[(depth - 1) >> 6] >> UInt64((depth - 1) & 63) & 1 == 1
                at = skipSpace(at)
                guard at < count else { return nil }
                if base[at] == UInt8(ascii: ",") {
                    at = skipSpace(at + 1)
                    guard !isObject || skipName(&at) else { return nil }
                    break
                }
                guard base[at] == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { return nil }
                depth -= 1
                at += 1
            }
        } while depth > 0
        return JSONValue(start: start, end: at, kind: base[start] == UInt8(ascii: "{") ? .object : .array)
    }

    /// Moves over a member's name and colon.
    private func skipName(_ at: inout Int) -> Bool {
        guard at < count, base[at] == UInt8(ascii: "\""), let name = string(at: at) else { return false }
        at = skipSpace(name.end + 1)
        guard at < count, base[at] == UInt8(ascii: ":") else { return false }
        at = skipSpace(at + 1)
        return true
    }
}
