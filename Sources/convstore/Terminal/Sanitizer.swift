/// Makes text harmless for people's output: what could steer a terminal, hide or reorder text is shown, not sent.
///
/// Control characters stand in caret form (`^[` is ESC), others that are not seen as `\u{202E}`.
enum Sanitizer {
    /// - Parameter before: what the text goes on from, where it comes in pieces: a joiner may begin one.
    static func harmless(_ text: String, keepsNewlines: Bool = false, after before: Unicode.Scalar? = nil) -> String {
        if text.utf8.allSatisfy({ 0x20..<0x7F ~= $0 }) { return text }
        var result = ""
        var previous = before ?? " "
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x0A where keepsNewlines: result.unicodeScalars.append(scalar)
            case 0..<0x20:
                result += "^"
                result.unicodeScalars.append(Unicode.Scalar(UInt8(scalar.value) + 0x40))
            case 0x7F: result += "^?"
            case 0x200C where isCursive(previous): result.unicodeScalars.append(scalar)
            case 0x200D where joins(previous) || isCursive(previous): result.unicodeScalars.append(scalar)
            case let value where isHidden(value): result += "\\u{" + String(value, radix: 16, uppercase: true) + "}"
            default: result.unicodeScalars.append(scalar)
            }
            previous = scalar
        }
        return result
    }

    /// A zero width joiner behind a picture makes one picture of two.
    private static func joins(_ previous: Unicode.Scalar) -> Bool {
        previous.value == 0xFE0F || (previous.value > 0xFF && previous.properties.isEmoji)
    }

    /// Persian, the scripts of India and others are not written right without joiners between their letters.
    private static func isCursive(_ previous: Unicode.Scalar) -> Bool {
        0x620...0x1AFF ~= previous.value && (previous.properties.isAlphabetic || previous.properties.canonicalCombiningClass != .notReordered)
    }

    /// C1 controls, bidirectional controls, and what has no width or no look of its own.
    private static func isHidden(_ value: UInt32) -> Bool {
        switch value {
        case 0x80...0x9F, 0xAD, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x206F, 0x3164,
            0xFEFF, 0xFFA0, 0xFFF0...0xFFFB, 0x1BCA0...0x1BCA3, 0x1D173...0x1D17A, 0xE0000...0xE0FFF:
            true
        default: false
        }
    }
}
