/// Numbers as people read them.
enum Quantity {
    /// `1,234,567`.
    static func count(_ value: some BinaryInteger) -> String {
        var digits = Array(String(value))
        var at = digits.count - 3
        while at > (value < 0 ? 1 : 0) {
            digits.insert(",", at: at)
            at -= 3
        }
        return String(digits)
    }

    /// `1 event`, `2,000 events`.
    static func count(_ value: some BinaryInteger, _ noun: String) -> String { count(value) + " " + noun + (value == 1 ? "" : "s") }

    /// `12.3 MB`, by powers of 1000.
    static func bytes(_ value: some BinaryInteger) -> String {
        var number = Double(value)
        var unit = 0
        let units = ["bytes", "kB", "MB", "GB", "TB", "PB"]
        while number >= 999.5, unit < units.count - 1 {
            number /= 1000
            unit += 1
        }
        return unit == 0 ? "\(value) bytes" : fixed(number, number < 9.95 ? 2 : 1) + " " + units[unit]
    }

    /// `0.8 s`, `2 min 5 s`, `3 h 10 min`.
    static func duration(_ seconds: Double) -> String {
        let whole = Int(seconds.rounded())
        if seconds < 59.95 { return fixed(seconds, 1) + " s" }
        if whole < 3600 { return "\(whole / 60) min \(whole % 60) s" }
        return "\(whole / 3600) h \(whole % 3600 / 60) min"
    }

    /// A number with so many decimals, without Foundation.
    static func fixed(_ value: Double, _ decimals: Int) -> String {
        guard value.isFinite, abs(value) < 1e15 else { return String(value) }
        var scale = 1
        for _ in 0..<decimals { scale *= 10 }
        let scaled = Int((abs(value) * Double(scale)).rounded())
        let sign = value < 0 && scaled > 0 ? "-" : ""
        guard decimals > 0 else { return sign + String(scaled) }
        let fraction = String(scaled % scale)
        return sign + String(scaled / scale) + "." + String(repeating: "0", count: decimals - fraction.count) + fraction
    }
}

extension Duration {
    var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
