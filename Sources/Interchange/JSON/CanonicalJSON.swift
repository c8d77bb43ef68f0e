/// The one form of a JSON value by which two are compared: Python's `json.dumps(value, sort_keys=True, separators=(",", ":"))`.
///
/// Names in the order of their code points, no spaces, ASCII with `\u` escapes, integers as they are, floats in their
/// shortest form (so 1.00 is 1.0, but 1 is another value), of members with the same name the last.
public enum CanonicalJSON {
    /// The canonical form of a JSON text that is an array; `nil` if it is malformed or no array.
    public static func array(_ text: String) -> String? {
        var text = text
        return text.withUTF8 { bytes in
            guard !bytes.isEmpty else { return nil }
            let json = JSONText(bytes)
            guard let root = json.root(), root.kind == .array else { return nil }
            return write(root, of: json)
        }
    }

    private struct Frame {
        var isObject: Bool
        /// Where its first member stands in `members`, and where its output begins.
        var firstMember: Int
        var outputStart: Int
    }

    private struct Member {
        var name: Range<Int>
        var output: Range<Int>
    }

    /// Writes a value of a well-formed text. One pass with a stack of its own; an object is put in order as it closes.
    static func write(_ value: JSONValue, of text: JSONText) -> String {
        var output: [UInt8] = []
        output.reserveCapacity(value.end - value.start)
        var frames: [Frame] = []
        var members: [Member] = []
        var names: [UInt8] = []
        var scratch: [UInt8] = []
        var at = value.start
        repeat {
            switch text.base[at] {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                let isObject = text.base[at] == UInt8(ascii: "{")
                output.append(text.base[at])
                frames.append(Frame(isObject: isObject, firstMember: members.count, outputStart: output.count))
                at = text.skipSpace(at + 1)
                if isObject, text.base[at] != UInt8(ascii: "}") {
                    beginMember(&at, of: text, &members, &names, &output)
                    continue
                }
                if !isObject, text.base[at] != UInt8(ascii: "]") { continue }
            case UInt8(ascii: "\""):
                guard let string = text.string(at: at) else { return "" }
                scratch.removeAll(keepingCapacity: true)
                _ = text.appendText(of: string, to: &scratch)
                appendString(scratch[...], to: &output)
                at = string.end + 1
            default:
                guard let word = text.word(at: at) else { return "" }
                appendWord(word, of: text, to: &output)
                at = word.end
            }
            while let frame = frames.last {
                at = text.skipSpace(at)
                if text.base[at] == UInt8(ascii: ",") {
                    if frame.isObject { members[members.count - 1].output = members[members.count - 1].output.lowerBound..<output.count }
                    output.append(UInt8(ascii: ","))
                    at = text.skipSpace(at + 1)
                    if frame.isObject { beginMember(&at, of: text, &members, &names, &output) }
                    break
                }
                if frame.isObject, members.count > frame.firstMember {
                    members[members.count - 1].output = members[members.count - 1].output.lowerBound..<output.count
                    close(frame, &members, &names, &output)
                }
                output.append(text.base[at])
                at += 1
                frames.removeLast()
            }
        } while !frames.isEmpty
        return String(decoding: output, as: UTF8.self)
    }

    private static func beginMember(
        _ at: inout Int, of text: JSONText, _ members: inout [Member], _ names: inout [UInt8], _ output: inout [UInt8]
    ) {
        guard let name = text.string(at: at) else { return }
        let start = names.count
        _ = text.appendText(of: name, to: &names)
        members.append(Member(name: start..<names.count, output: output.count..<output.count))
        appendString(names[start...], to: &output)
        output.append(UInt8(ascii: ":"))
        at = text.skipSpace(text.skipSpace(name.end + 1) + 1)
    }

    /// Puts a finished object's members in order, and drops all but the last of each name.
    private static func close(_ frame: Frame, _ members: inout [Member], _ names: inout [UInt8], _ output: inout [UInt8]) {
        let own = Array(members[frame.firstMember...])
        func precedes(_ left: Member, _ right: Member) -> Bool { names[left.name].lexicographicallyPrecedes(names[right.name]) }
        var isSorted = true
        for index in own.indices.dropFirst() where isSorted { isSorted = precedes(own[index - 1], own[index]) }
        if !isSorted {
            let sorted = own.enumerated().sorted {
                precedes($0.element, $1.element) || (!precedes($1.element, $0.element) && $0.offset < $1.offset)
            }.map(\.element)
            var ordered: [UInt8] = []
            ordered.reserveCapacity(output.count - frame.outputStart)
            for (index, member) in sorted.enumerated() {
                if index + 1 < sorted.count, names[member.name] == names[sorted[index + 1].name] { continue }
                if !ordered.isEmpty { ordered.append(UInt8(ascii: ",")) }
                ordered.append(contentsOf: output[member.output])
            }
            output.replaceSubrange(frame.outputStart..., with: ordered)
        }
        names.removeLast(names.count - own[0].name.lowerBound)
        members.removeLast(own.count)
    }

    /// Appends WTF-8 as an ASCII JSON string.
    private static func appendString(_ text: ArraySlice<UInt8>, to output: inout [UInt8]) {
        output.append(UInt8(ascii: "\""))
        var at = text.startIndex
        while at < text.endIndex {
            let byte = text[at]
            at += 1
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): output.append(contentsOf: [UInt8(ascii: "\\"), byte])
            case 0x20...0x7E: output.append(byte)
            case 0x0A: output.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "n")])
            case 0x0D: output.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "r")])
            case 0x09: output.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "t")])
            case 0x0C: output.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "f")])
            case 0x08: output.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "b")])
            case 0..<0x80: appendEscape(UInt32(byte), to: &output)
            default:
                let tails = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3
                var scalar = UInt32(byte) & (0x3F >> UInt32(tails))
                for _ in 0..<tails {
                    scalar = scalar << 6 | UInt32(text[at] & 0x3F)
                    at += 1
                }
                if scalar < 0x10000 {
                    appendEscape(scalar, to: &output)
                } else {
                    appendEscape(0xD800 | (scalar - 0x10000) >> 10, to: &output)
                    appendEscape(0xDC00 | (scalar - 0x10000) & 0x3FF, to: &output)
                }
            }
        }
        output.append(UInt8(ascii: "\""))
    }

    private static func appendWord(_ word: JSONValue, of text: JSONText, to output: inout [UInt8]) {
        let bytes = UnsafeBufferPointer(start: text.base + word.start, count: word.end - word.start)
        if word.kind == .integer, bytes.count == 2, bytes[0] == UInt8(ascii: "-"), bytes[1] == 0x30 {
            output.append(0x30)  // Python's integers know no -0.
        } else if word.kind == .float, bytes[bytes.count - 1] &- 0x30 < 10 {
            output.append(contentsOf: pythonFloat(Double(String(decoding: bytes, as: UTF8.self)) ?? 0).utf8)
        } else {
            output.append(contentsOf: bytes)
        }
    }

    /// Python's `repr`: the shortest digits that give the same number back, with an exponent below 1e-4 and from 1e16 on.
    static func pythonFloat(_ value: Double) -> String {
        guard value.isFinite else { return value.isNaN ? "NaN" : value < 0 ? "-Infinity" : "Infinity" }
        // Swift's digits are the shortest too; only where it puts the point differs.
        let magnitude = value.magnitude.description
        let sign = value.sign == .minus ? "-" : ""
        let parts = magnitude.split(separator: "e")
        let numeral = parts[0].split(separator: ".", omittingEmptySubsequences: false)
        var digits = Array(numeral[0].utf8) + (numeral.count > 1 ? Array(numeral[1].utf8) : [])
        var point = numeral[0].utf8.count + (parts.count > 1 ? Int(parts[1]) ?? 0 : 0)
        while digits.count > 1, digits[0] == 0x30 {
            digits.removeFirst()
            point -= 1
        }
        while digits.count > 1, digits[digits.count - 1] == 0x30 { digits.removeLast() }
        if digits == [0x30] { return sign + "0.0" }
        func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
        func zeros(_ count: Int) -> String { String(repeating: "0", count: count) }
        if point > 16 || point < -3 {
            let exponent = point - 1
            let mantissa = text(digits.prefix(1)) + (digits.count > 1 ? "." + text(digits.dropFirst()) : "")
            let size = String(exponent.magnitude)
            return sign + mantissa + (exponent < 0 ? "e-" : "e+") + (size.utf8.count < 2 ? "0" : "") + size
        }
        if point <= 0 { return sign + "0." + zeros(-point) + text(digits) }
        if digits.count <= point { return sign + text(digits) + zeros(point - digits.count) + ".0" }
        return sign + text(digits.prefix(point)) + "." + text(digits.dropFirst(point))
    }
}

/// Appends `\uXXXX` in lower case.
func appendEscape(_ unit: UInt32, to output: inout [UInt8]) {
    output.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "u")])
    for shift in [12, 8, 4, 0] as [UInt32] { output.append(hexDigit(UInt8(unit >> shift & 15))) }
}

@inline(__always)
func hexDigit(_ nibble: UInt8) -> UInt8 { nibble < 10 ? 0x30 + nibble : 0x57 + nibble }
