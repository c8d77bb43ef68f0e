/// Breaks text into lines that fit a terminal: at spaces, between wide characters, and within a word only if it is longer than a line.
enum TextWrap {
    /// What must not begin a line.
    private static let closing: Set<Character> = ["、", "。", "，", "．", "！", "？", "；", "：", "）", "」", "』", "】", "》", "〉", "”", "’", "ー", "…"]

    /// Lines of at most so many columns, at least one. The text is harmless already; its own line ends stay.
    static func lines(_ text: String, columns: Int) -> [String] {
        var result: [String] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) { wrap(line, max(columns, 2), &result) }
        return result
    }

    /// A message's text, harmless, as it is to be wrapped: tabs are spaces, and every line end is LF.
    static func harmless(_ text: String, after before: Unicode.Scalar? = nil) -> String {
        guard text.utf8.contains(where: { $0 == 0x09 || $0 == 0x0D }) else { return Sanitizer.harmless(text, keepsNewlines: true, after: before) }
        var scalars = String.UnicodeScalarView()
        var iterator = text.unicodeScalars.makeIterator()
        var next = iterator.next()
        while let scalar = next {
            next = iterator.next()
            switch scalar {
            case "\t": scalars.append(contentsOf: "    ".unicodeScalars)
            case "\r" where next == "\n": continue
            default: scalars.append(scalar)
            }
        }
        return Sanitizer.harmless(String(scalars), keepsNewlines: true, after: before)
    }

    /// The same on one line: for titles, snippets and quotes.
    static func oneLine(_ text: String) -> String {
        Sanitizer.harmless(text.split(whereSeparator: \.isWhitespace).joined(separator: " "))
    }

    private static func wrap(_ text: Substring, _ columns: Int, _ result: inout [String]) {
        var line: [(character: Character, width: Int)] = []
        var width = 0
        // A line may be broken before this place in it.
        var place = 0
        var isContinued = false

        func end(at index: Int) {
            var part = line[..<index]
            while part.last?.character == " " { part.removeLast() }
            if !part.isEmpty { result.append(String(part.map(\.character))) }
            line.removeSubrange(..<index)
            while line.first?.character == " " { line.removeFirst() }
            width = line.reduce(0) { $0 + $1.width }
            place = 0
            isContinued = true
        }

        for character in text {
            let next = DisplayWidth.of(character)
            if character == " " {
                // A break takes the spaces around it with it.
                if isContinued, line.isEmpty { continue }
                if width + 1 > columns {
                    end(at: line.count)
                } else {
                    line.append((" ", 1))
                    width += 1
                }
                continue
            }
            if let last = line.last, last.character == " " || ((last.width == 2 || next == 2) && !closing.contains(character)) { place = line.count }
            if width + next > columns, !line.isEmpty { end(at: place > 0 ? place : line.count) }
            line.append((character, next))
            width += next
        }
        while line.last?.character == " " { line.removeLast() }
        if !line.isEmpty || !isContinued { result.append(String(line.map(\.character))) }
    }
}
