/// Standard base64 (RFC 4648, section 4), strict: padded, no other characters, and the unused bits zero, so that each text has one
/// meaning and each value one text.
package enum Base64 {
    private static let alphabet: [UInt8] = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    package static func encode(_ bytes: UnsafeRawBufferPointer) -> String {
        let count = (bytes.count + 2) / 3 * 4
        return String(unsafeUninitializedCapacity: count) { out in
            var at = 0
            var index = 0
            while index < bytes.count {
                let left = bytes.count - index
                let second = left > 1 ? bytes[index + 1] : 0
                let third = left > 2 ? bytes[index + 2] : 0
                let group = UInt32(bytes[index]) << 16 | UInt32(second) << 8 | UInt32(third)
                out[at] = alphabet[Int(group >> 18)]
                out[at + 1] = alphabet[Int(group >> 12 & 63)]
                out[at + 2] = left > 1 ? alphabet[Int(group >> 6 & 63)] : UInt8(ascii: "=")
                out[at + 3] = left > 2 ? alphabet[Int(group & 63)] : UInt8(ascii: "=")
                at += 4
                index += 3
            }
            return at
        }
    }

    package static func encode(_ bytes: [UInt8]) -> String { bytes.withUnsafeBytes { encode($0) } }

    /// `nil` for anything but the one text that `encode` makes of some bytes.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let characters = Array(text.utf8)
        guard characters.count % 4 == 0 else { return nil }
        var result: [UInt8] = []
        result.reserveCapacity(characters.count / 4 * 3)
        for start in stride(from: 0, to: characters.count, by: 4) {
            let isLast = start + 4 == characters.count
            var padding = 0
            if isLast, characters[start + 3] == UInt8(ascii: "=") { padding = characters[start + 2] == UInt8(ascii: "=") ? 2 : 1 }
            var group: UInt32 = 0
            for offset in 0..<4 {
                if offset >= 4 - padding {
                    group <<= 6
                } else {
                    guard let value = value(of: characters[start + offset]) else { return nil }
                    group = group << 6 | UInt32(value)
                }
            }
            guard group & (1 << UInt32(8 * padding) - 1) == 0 else { return nil }
            for offset in 0..<(3 - padding) { result.append(UInt8(truncatingIfNeeded: group >> UInt32(16 - 8 * offset))) }
        }
        return result
    }

    private static func value(of character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
