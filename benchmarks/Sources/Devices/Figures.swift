import Foundation

/// A measurement's figures in the order in which they are told: a line each for people, then all as one JSON object.
struct Figures {
    private var lines: [(name: String, value: String)] = []

    mutating func add(_ name: String, _ value: String) { lines.append((name, "\"\(value)\"")) }
    mutating func add(_ name: String, _ value: Int) { lines.append((name, "\(value)")) }
    mutating func add(_ name: String, _ value: Double, decimals: Int = 2) { lines.append((name, String(format: "%.\(decimals)f", value))) }

    /// Percentiles of durations, in milliseconds.
    mutating func add(_ name: String, _ durations: [UInt64]) {
        let sorted = durations.sorted()
        guard let last = sorted.last else { return add(name, "none") }
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] { add("\(name)_\(label)_ms", Self.milliseconds(sorted, share)) }
        add("\(name)_max_ms", Double(last) / 1e6)
    }

    /// What was measured and the disk alone in the same run, and how many times longer the first took; and what was measured while no disk stalled.
    mutating func add(_ name: String, _ delays: [Delay], beside disk: [UInt64], _ stalls: [DiskWitness.Stall]?) {
        let durations = delays.map(\.length)
        add(name, durations)
        add("disk_alone", disk)
        if !durations.isEmpty, !disk.isEmpty {
            let sorted = durations.sorted(), alone = disk.sorted()
            for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
                add("\(name)_\(label)_to_disk_alone", Self.milliseconds(sorted, share) / Self.milliseconds(alone, share))
            }
        }
        guard let stalls else { return }
        let calm = delays.filter { !$0.met(stalls) }
        add("disk_stalls", stalls.count)
        add("disk_stall_max_ms", Double(stalls.map { $0.end - $0.begin }.max() ?? 0) / 1e6)
        add("met_by_stalls", delays.count - calm.count)
        add("\(name)_without_stalls", calm.map(\.length))
    }

    private static func milliseconds(_ sorted: [UInt64], _ share: Double) -> Double {
        Double(sorted[min(Int(Double(sorted.count) * share), sorted.count - 1)]) / 1e6
    }

    func print() {
        let width = lines.map(\.name.count).max() ?? 0
        for line in lines { Swift.print("\(line.name.padding(toLength: width, withPad: " ", startingAt: 0)) \(line.value)") }
        Swift.print("{" + lines.map { "\"\($0.name)\": \($0.value)" }.joined(separator: ", ") + "}")
    }
}

/// Progress goes to standard error, so that standard output is the report.
func note(_ line: String) { FileHandle.standardError.write(Data((line + "\n").utf8)) }
