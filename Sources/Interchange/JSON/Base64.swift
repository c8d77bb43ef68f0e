/// Base64 as Python's `b64decode(validate=True)` reads it, and in its usual padded form when written.
enum Base64 {
    /// The bytes that the text stands for; `nil` if Python would refuse it. (It takes any number of `=` after a whole group, and bits
    /// that no byte needs.)
    static func decode(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        guard text.first != UInt8(ascii: "=") else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3 + 3)
        var place = 0
        var rest: UInt8 = 0
        var pads = 0
        for (index, character) in text.enumerated() {
            if character == UInt8(ascii: "=") {
                pads += 1
                if place >= 2, place + pads >= 4 { return index + 1 == text.count ? bytes : nil }
                continue
            }
            guard pads == 0, let value = value(character) else { return nil }
            switch place {
            case 0: rest = value
            case 1:
                bytes.append(rest << 2 | value >> 4)
                rest = value & 0x0F
            case 2:
                bytes.append(rest << 4 | value >> 2)
                rest = value & 0x03
            default: bytes.append(rest << 6 | value)
            }
            place = (place + 1) & 3
        }
        return place == 0 ? bytes : nil
    }

    @inline(__always)
    private static func value(_ character: UInt8) -> UInt8? {
        switch character {
        case 0x41...0x5A: character - 0x41
        case 0x61...0x7A: character - 0x61 + 26
        case 0x30...0x39: character - 0x30 + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }

    static func append(_ bytes: [UInt8], to output: inout [UInt8]) {
        func digit(_ value: UInt8) -> UInt8 {
            switch value & 63 {
            case let letter where letter < 26: 0x41 + letter
            case let letter where letter < 52: 0x61 - 26 + letter
            case let number where number < 62: 0x30 + number - 52
            case 62: UInt8(ascii: "+")
            default: UInt8(ascii: "/")
            }
        }
        var at = 0
        while at < bytes.count {
            let first = bytes[at]
            let second = at + 1 < bytes.count ? bytes[at + 1] : 0
            let third = at + 2 < bytes.count ? bytes[at + 2] : 0
            output.append(digit(first >> 2))
            output.append(digit(first << 4 | second >> 4))
            output.append(at + 1 < bytes.count ? digit(second << 2 | third >> 6) : UInt8(ascii: "="))
            output.append(at + 2 < bytes.count ? digit(third) : UInt8(ascii: "="))
            at += 3
        }
    }
}
