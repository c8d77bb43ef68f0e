/// One JSON object on one line of standard output, its members in the order in which they are added.
struct JSONLine {
    private(set) var bytes: [UInt8] = [UInt8(ascii: "{")]

    mutating func add(_ name: String, _ value: some BinaryInteger) { addRaw(name, String(value)) }
    mutating func add(_ name: String, _ value: Bool) { addRaw(name, value ? "true" : "false") }
    mutating func add(_ name: String, _ value: Double, decimals: Int) { addRaw(name, Quantity.fixed(value, decimals)) }

    mutating func add(_ name: String, _ value: String) {
        addName(name)
        appendString(value)
    }

    /// `null` where there is none.
    mutating func addOptional(_ name: String, _ value: String?) { if let value { add(name, value) } else { addNull(name) } }
    mutating func addOptional(_ name: String, _ value: (some BinaryInteger)?) { if let value { add(name, value) } else { addNull(name) } }

    mutating func addNull(_ name: String) { addRaw(name, "null") }

    mutating func add(_ name: String, _ values: [String]) {
        addName(name)
        bytes.append(UInt8(ascii: "["))
        for (index, value) in values.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            appendString(value)
        }
        bytes.append(UInt8(ascii: "]"))
    }

    mutating func add(_ name: String, _ values: [some BinaryInteger]) { addRaw(name, "[" + values.map { String($0) }.joined(separator: ",") + "]") }

    mutating func add(_ name: String, _ value: JSONLine) {
        addName(name)
        bytes.append(contentsOf: value.bytes)
        bytes.append(UInt8(ascii: "}"))
    }

    mutating func add(_ name: String, _ values: [JSONLine]) {
        addName(name)
        bytes.append(UInt8(ascii: "["))
        for (index, value) in values.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes.append(contentsOf: value.bytes)
            bytes.append(UInt8(ascii: "}"))
        }
        bytes.append(UInt8(ascii: "]"))
    }

    /// The whole line with its LF.
    consuming func finished() -> [UInt8] { bytes + [UInt8(ascii: "}"), 0x0A] }

    consuming func print() throws {
        let line = finished()
        try StandardOutput.shared.write { $0.append(contentsOf: line) }
    }

    private mutating func addName(_ name: String) {
        if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
        appendString(name)
        bytes.append(UInt8(ascii: ":"))
    }

    private mutating func addRaw(_ name: String, _ value: String) {
        addName(name)
        bytes.append(contentsOf: value.utf8)
    }

    /// What steers a terminal or ends a line is escaped here too.
    private mutating func appendString(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x22, 0x5C:
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(UInt8(scalar.value))
            case 0x20..<0x7F: bytes.append(UInt8(scalar.value))
            case 0..<0xA0, 0x2028, 0x2029:
                let digits = String(scalar.value, radix: 16)
                bytes.append(contentsOf: ("\\u" + String(repeating: "0", count: 4 - digits.count) + digits).utf8)
            default: bytes.append(contentsOf: UTF8.encode(scalar)!)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
