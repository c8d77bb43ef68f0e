import EventLog

/// JSON written into a byte array.
extension [UInt8] {
    @inline(__always)
    mutating func append(_ text: StaticString) {
        append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// A member whose name stands in `prefix`, with a string for its value.
    @inline(__always)
    mutating func appendMember(_ prefix: StaticString, _ value: String) {
        append(prefix)
        appendString(value)
    }

    mutating func appendMember<Tag>(_ prefix: StaticString, _ id: Identifier<Tag>) {
        append(prefix)
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 38) { text in
            text[0] = UInt8(ascii: "\"")
            var at = 1
            for index in 0..<16 {
                if index == 4 || index == 6 || index == 8 || index == 10 {
                    text[at] = UInt8(ascii: "-")
                    at += 1
                }
                let word = index < 8 ? id.high : id.low
                let byte = UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * (index & 7)))
                text[at] = hexDigit(byte >> 4)
                text[at + 1] = hexDigit(byte & 15)
                at += 2
            }
            text[37] = UInt8(ascii: "\"")
            append(contentsOf: text)
        }
    }

    mutating func appendMember(_ prefix: StaticString, _ hlc: HLC) {
        append(prefix)
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 18) { text in
            text[0] = UInt8(ascii: "\"")
            for index in 0..<16 { text[index + 1] = hexDigit(UInt8(truncatingIfNeeded: hlc.rawValue >> UInt64(60 - 4 * index)) & 15) }
            text[17] = UInt8(ascii: "\"")
            append(contentsOf: text)
        }
    }

    mutating func appendMember(_ prefix: StaticString, base64 bytes: [UInt8]) {
        append(prefix)
        append(UInt8(ascii: "\""))
        Base64.append(bytes, to: &self)
        append(UInt8(ascii: "\""))
    }

    mutating func appendValue(_ value: String?) {
        if let value { appendString(value) } else { append("null") }
    }

    mutating func appendNumber(_ value: UInt64) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var rest = value
            var at = 20
            repeat {
                at -= 1
                digits[at] = 0x30 + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            append(contentsOf: UnsafeBufferPointer(rebasing: digits[at...]))
        }
    }

    /// A JSON string as UTF-8: escaped are only the quote, the backslash, control characters (C0, DEL and C1, which can steer
    /// a terminal) and the line separators U+2028 and U+2029 (which end a line elsewhere).
    mutating func appendString(_ text: String) {
        var text = text
        append(UInt8(ascii: "\""))
        text.withUTF8 { bytes in
            guard let base = bytes.baseAddress else { return }
            let raw = UnsafeRawPointer(base)
            var plain = 0
            var at = 0
            while at < bytes.count {
                while at + 8 <= bytes.count {
                    let word = UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: at, as: UInt64.self))
                    let ones: UInt64 = 0x0101_0101_0101_0101
                    let quote = (word ^ (ones &* 0x22)) &- ones
                    let backslash = (word ^ (ones &* 0x5C)) &- ones
                    let delete = (word ^ (ones &* 0x7F)) &- ones
                    let hits = (quote | backslash | delete | (word &- ones &* 0x20) | word) & (ones &* 0x80)
                    if hits != 0 {
                        at += hits.trailingZeroBitCount >> 3
                        break
                    }
                    at += 8
                }
                guard at < bytes.count else { break }
                let byte = bytes[at]
                var length = 1
                var escaped: UInt32?
                switch byte {
                case 0x20...0x21, 0x23...0x5B, 0x5D...0x7E: break
                case 0..<0x80: escaped = UInt32(byte)
                case 0xC2 where bytes[at + 1] < 0xA0:
                    escaped = UInt32(bytes[at + 1])
                    length = 2
                case 0xE2 where bytes[at + 1] == 0x80 && bytes[at + 2] & 0xFE == 0xA8:
                    escaped = 0x2000 | UInt32(bytes[at + 2] & 0x3F)
                    length = 3
                default: length = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4
                }
                if let escaped {
                    append(contentsOf: UnsafeBufferPointer(rebasing: bytes[plain..<at]))
                    appendEscaped(escaped)
                    plain = at + length
                }
                at += length
            }
            append(contentsOf: UnsafeBufferPointer(rebasing: bytes[plain...]))
        }
        append(UInt8(ascii: "\""))
    }

    private mutating func appendEscaped(_ unit: UInt32) {
        switch unit {
        case 0x22: append("\\\"")
        case 0x5C: append("\\\\")
        case 0x0A: append("\\n")
        case 0x0D: append("\\r")
        case 0x09: append("\\t")
        case 0x08: append("\\b")
        case 0x0C: append("\\f")
        default: appendEscape(unit, to: &self)
        }
    }
}
