extension JSONText {
    /// The string whose opening quote stands at `start`; `nil` if it does not end, holds a raw control character, a bad
    /// escape or bytes that are not UTF-8.
    func string(at start: Int) -> JSONValue? {
        var at = start + 1
        var isEscaped = false
        let raw = UnsafeRawPointer(base)
        while true {
            // Eight bytes at a time, to the first that is a quote, a backslash, a control character or not ASCII.
            while at + 8 <= count {
                let word = UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: at, as: UInt64.self))
                let ones: UInt64 = 0x0101_0101_0101_0101
                let quote = (word ^ (ones &* 0x22)) &- ones
                let backslash = (word ^ (ones &* 0x5C)) &- ones
                let hits = (quote | backslash | (word &- ones &* 0x20) | word) & (ones &* 0x80)
                if hits != 0 {
                    at += hits.trailingZeroBitCount >> 3
                    break
                }
                at += 8
            }
            guard at < count else { return nil }
            switch base[at] {
            case UInt8(ascii: "\""): return JSONValue(start: start + 1, end: at, kind: .string, isEscaped: isEscaped)
            case UInt8(ascii: "\\"):
                isEscaped = true
                guard let length = escapeLength(at) else { return nil }
                at += length
            case 0..<0x20: return nil
            case 0x20..<0x80: at += 1
            default:
                while at < count, base[at] >= 0x80 {
                    guard let length = sequenceLength(at) else { return nil }
                    at += length
                }
            }
        }
    }

    /// Bytes of the escape whose backslash stands at `at`; `nil` if there is no such escape.
    private func escapeLength(_ at: Int) -> Int? {
        guard at + 1 < count else { return nil }
        switch base[at + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"), UInt8(ascii: "n"),
            UInt8(ascii: "r"), UInt8(ascii: "t"):
            return 2
        case UInt8(ascii: "u"): return codeUnit(at) == nil ? nil : 6
        default: return nil
        }
    }

    /// The UTF-16 code unit of a `\uXXXX` that begins at `at`.
    private func codeUnit(_ at: Int) -> UInt32? {
        guard at + 6 <= count, base[at] == UInt8(ascii: "\\"), base[at + 1] == UInt8(ascii: "u") else { return nil }
        var unit: UInt32 = 0
        for index in at + 2..<at + 6 {
            guard let digit = hexValue(base[index]) else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }

    /// Bytes of the well-formed UTF-8 sequence that begins at `at` with a byte from 0x80 on (Unicode 15, table 3-7).
    private func sequenceLength(_ at: Int) -> Int? {
        func isTail(_ index: Int) -> Bool { index < count && base[index] & 0xC0 == 0x80 }
        let first = base[at]
        switch first {
        case 0xC2...0xDF: return isTail(at + 1) ? 2 : nil
        case 0xE0...0xEF:
            guard isTail(at + 1), isTail(at + 2) else { return nil }
            let second = base[at + 1]
            return (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ? nil : 3
        case 0xF0...0xF4:
            guard isTail(at + 1), isTail(at + 2), isTail(at + 3) else { return nil }
            let second = base[at + 1]
            return (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F) ? nil : 4
        default: return nil
        }
    }

    /// Appends a string's text. Half a surrogate pair is written as the three bytes that its code point would have
    /// (WTF-8, which sorts by code points as Python does), and makes the answer `false`: it is no text.
    func appendText(of value: JSONValue, to output: inout [UInt8]) -> Bool {
        var isText = true
        var at = value.start
        while at < value.end {
            var plain = at
            while plain < value.end, base[plain] != UInt8(ascii: "\\") { plain += 1 }
            output.append(contentsOf: UnsafeBufferPointer(start: base + at, count: plain - at))
            at = plain
            guard at < value.end else { break }
            switch base[at + 1] {
            case UInt8(ascii: "u"):
                var scalar = codeUnit(at) ?? 0xFFFD
                at += 6
                if scalar & 0xFC00 == 0xD800, at < value.end, let low = codeUnit(at), low & 0xFC00 == 0xDC00 {
                    scalar = 0x10000 + (scalar & 0x3FF) << 10 + low & 0x3FF
                    at += 6
                }
                isText = isText && scalar & 0xFFFF_F800 != 0xD800
                appendScalar(scalar, to: &output)
                continue
            case UInt8(ascii: "b"): output.append(0x08)
            case UInt8(ascii: "f"): output.append(0x0C)
            case UInt8(ascii: "n"): output.append(0x0A)
            case UInt8(ascii: "r"): output.append(0x0D)
            case UInt8(ascii: "t"): output.append(0x09)
            case let byte: output.append(byte)
            }
            at += 2
        }
        return isText
    }

    /// Whether a string's text is just this ASCII name.
    func spells(_ value: JSONValue, _ name: StaticString) -> Bool {
        guard value.kind == .string else { return false }
        guard !value.isEscaped else {
            var text: [UInt8] = []
            return appendText(of: value, to: &text)
                && text.elementsEqual(UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
        }
        guard value.end - value.start == name.utf8CodeUnitCount else { return false }
        for index in 0..<name.utf8CodeUnitCount where base[value.start + index] != name.utf8Start[index] { return false }
        return true
    }

    /// A string's text; `nil` if it is no string. Half a surrogate pair turns into U+FFFD.
    func repairedText(_ value: JSONValue) -> String? {
        guard value.kind == .string else { return nil }
        guard value.isEscaped else { return plainText(value) }
        var text: [UInt8] = []
        return appendText(of: value, to: &text) ? String(decoding: text, as: UTF8.self) : replacingSurrogates(text)
    }

    /// The text of a string without escapes.
    @inline(__always)
    func plainText(_ value: JSONValue) -> String {
        String(decoding: UnsafeBufferPointer(start: base + value.start, count: value.end - value.start), as: UTF8.self)
    }

    private func replacingSurrogates(_ text: [UInt8]) -> String {
        var repaired: [UInt8] = []
        var at = 0
        while at < text.count {
            if text[at] == 0xED, at + 2 < text.count, text[at + 1] > 0x9F {
                appendScalar(0xFFFD, to: &repaired)
                at += 3
            } else {
                repaired.append(text[at])
                at += 1
            }
        }
        return String(decoding: repaired, as: UTF8.self)
    }

    /// An integer token's value; `nil` for other tokens, negative values and those that do not fit. `-0` is 0.
    func unsigned(_ value: JSONValue) -> UInt64? {
        guard value.kind == .integer else { return nil }
        let isNegative = base[value.start] == UInt8(ascii: "-")
        var result: UInt64 = 0
        for index in value.start + (isNegative ? 1 : 0)..<value.end {
            let (product, over) = result.multipliedReportingOverflow(by: 10)
            let (sum, carry) = product.addingReportingOverflow(UInt64(base[index] - 0x30))
            guard !over, !carry else { return nil }
            result = sum
        }
        return isNegative && result != 0 ? nil : result
    }
}

/// The value of a hexadecimal digit in either case.
@inline(__always)
func hexValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x41...0x46: byte - 0x41 + 10
    case 0x61...0x66: byte - 0x61 + 10
    default: nil
    }
}

/// Appends a code point as UTF-8, a surrogate as the three bytes that the scheme would give it.
func appendScalar(_ scalar: UInt32, to output: inout [UInt8]) {
    func tail(_ shift: UInt32) -> UInt8 { 0x80 | UInt8(scalar >> shift & 0x3F) }
    switch scalar {
    case 0..<0x80: output.append(UInt8(scalar))
    case 0x80..<0x800: output.append(contentsOf: [0xC0 | UInt8(scalar >> 6), tail(0)])
    case 0x800..<0x10000: output.append(contentsOf: [0xE0 | UInt8(scalar >> 12), tail(6), tail(0)])
    default: output.append(contentsOf: [0xF0 | UInt8(scalar >> 18), tail(12), tail(6), tail(0)])
    }
}
