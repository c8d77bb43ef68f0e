/// Columns that text takes on a terminal: East Asian wide characters and pictures take two, combining marks none.
enum DisplayWidth {
    static func of(_ text: String) -> Int {
        if text.utf8.allSatisfy({ $0 < 0x80 }) { return text.utf8.count }
        return text.reduce(0) { $0 + of($1) }
    }

    static func of(_ character: Character) -> Int {
        var (widest, sum) = (0, 0)
        var isPicture = false
        for scalar in character.unicodeScalars {
            if scalar.value == 0xFE0F { return 2 }
            isPicture = isPicture || scalar.properties.isEmojiPresentation
            widest = max(widest, of(scalar))
            sum += of(scalar)
        }
        // What makes up one picture stands in one place; letters of scripts whose signs take room (ｶﾞ, กำ, क्ष) stand beside each other.
        return isPicture ? widest : sum
    }

    /// Cuts text to so many columns, the last of them an ellipsis if something is missing.
    static func cut(_ text: String, to columns: Int) -> String {
        guard of(text) > columns else { return text }
        var result = ""
        var width = 0
        for character in text {
            let next = of(character)
            if width + next > columns - 1 { break }
            result.append(character)
            width += next
        }
        return result + "…"
    }

    private static func of(_ scalar: Unicode.Scalar) -> Int {
        let value = scalar.value
        if value < 0x300 { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: break
        }
        // Jamo that complete a syllable stand within it.
        if 0x1160...0x11FF ~= value || 0xD7B0...0xD7FF ~= value { return 0 }
        if scalar.properties.isEmojiPresentation { return 2 }
        switch value {
        // Signs of the I Ching (2630, 268A, 4DC0, 1D300) are wide since Unicode 16: where a terminal does not know it, a line is short, not long.
        case 0x1100...0x115F, 0x2329...0x232A, 0x2630...0x2637, 0x268A...0x268F, 0x2E80...0x303E, 0x3041...0x3247, 0x3250...0x4DFF,
            0x4E00...0x9FFF, 0xA000...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE10...0xFE19, 0xFE30...0xFE6F, 0xFF00...0xFF60,
            0xFFE0...0xFFE6, 0x16FE0...0x18DFF, 0x1AFF0...0x1B2FF, 0x1D300...0x1D376, 0x1F200...0x1F265, 0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }
}
