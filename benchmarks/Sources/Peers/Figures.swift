// How both reports write their figures.

func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    guard !sorted.isEmpty else { return 0 }
    return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
}

/// With so many digits after the point.
func fixed(_ value: Double, _ digits: Int) -> String {
    guard digits > 0 else { return "\(Int(value.rounded()))" }
    var scale = 1
    for _ in 0..<digits { scale *= 10 }
    let whole = Int((value * Double(scale)).rounded())
    let fraction = String(whole % scale)
    return "\(whole / scale)." + String(repeating: "0", count: digits - fraction.count) + fraction
}

/// A whole number, its digits in groups of three.
func grouped(_ value: Double) -> String {
    let digits = Array(String(Int(value.rounded())))
    return String(digits.enumerated().flatMap { (digits.count - $0.offset) % 3 == 0 && $0.offset > 0 ? [",", $0.element] : [$0.element] })
}
