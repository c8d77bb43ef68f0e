/// Shows on standard error how far a command has come, its rate and the time left: on a terminal only, and from the second second on.
struct ProgressBar {
    private static let width = 24
    private let verb: String
    private let start = ContinuousClock.now
    private var lastDrawn: ContinuousClock.Instant?
    private let isOn: Bool

    /// `isOn`: whether it may be shown at all; text on the same terminal would be torn apart by it.
    init(_ verb: String, isOn: Bool = true) {
        self.verb = verb
        self.isOn = isOn && Terminal.isError
    }

    /// Shows a bar with how many `noun` of how many are done, for as long as the closure runs.
    static func during<R>(
        _ verb: String, _ noun: String, isOn: Bool = true, _ body: (_ update: @escaping (_ done: UInt64, _ total: UInt64) -> Void) throws -> R
    ) rethrows -> R {
        var bar = ProgressBar(verb, isOn: isOn)
        defer { bar.clear() }
        return try body { done, total in bar.update(done: Double(done), total: Double(total), count: Int(clamping: done), noun) }
    }

    /// `done` of `total` in units of work (bytes, positions), `total` 0 if nobody knows; `count` of `noun` for the rate.
    mutating func update(done: Double, total: Double, count: Int, _ noun: String) {
        update(done: done, total: total) { seconds in "\(Quantity.count(count)) \(noun), \(Quantity.count(Int(Double(count) / seconds)))/s" }
    }

    /// The same where the work is bytes.
    mutating func update(doneBytes: UInt64, totalBytes: UInt64) {
        update(done: Double(doneBytes), total: Double(totalBytes)) { seconds in
            "\(Quantity.bytes(doneBytes)), \(Quantity.bytes(Int(Double(doneBytes) / seconds)))/s"
        }
    }

    private mutating func update(done: Double, total: Double, rate: (_ seconds: Double) -> String) {
        guard isOn else { return }
        let now = ContinuousClock.now
        guard now - start >= .seconds(1), now - (lastDrawn ?? start) >= .milliseconds(100) else { return }
        lastDrawn = now
        let elapsed = (now - start).seconds
        let rate = rate(elapsed)
        guard total > 0 else { return draw("\(verb)  \(rate)") }
        let share = min(1, done / total)
        let filled = Int(share * Double(Self.width))
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: Self.width - filled)
        let left = share > 0.01 ? ", " + Quantity.duration(elapsed * (1 - share) / share) + " left" : ""
        draw("\(verb) \(bar) \(Int(share * 100)) %  \(rate)\(left)")
    }

    private func draw(_ line: String) { Terminal.writeError("\r\u{1B}[K" + DisplayWidth.cut(line, to: Terminal.columns - 1)) }

    /// Takes the bar away.
    mutating func clear() {
        if lastDrawn != nil { Terminal.writeError("\r\u{1B}[K") }
        lastDrawn = nil
    }
}
