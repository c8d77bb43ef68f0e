import Foundation

/// What the machine's processors have done since it was started (`/proc/stat`, proc_stat(5)).
struct MachineTime {
    /// In ticks: all, and those in which a virtual machine was ready to run and its host let others run.
    private let all: UInt64, stolen: UInt64

    static var now: MachineTime {
        let line = ((try? String(contentsOfFile: "/proc/stat", encoding: .utf8)) ?? "").prefix { $0 != "\n" }
        // user nice system idle iowait irq softirq steal; what follows is counted in the first two.
        let ticks = line.split(separator: " ").dropFirst().prefix(8).compactMap { UInt64($0) }
        return MachineTime(all: ticks.reduce(0, +), stolen: ticks.count == 8 ? ticks[7] : 0)
    }

    /// What went by between two moments.
    struct Spent {
        private(set) var all: UInt64 = 0, stolen: UInt64 = 0

        /// The share of the processors' time, in percent, that the host took.
        var stolenPercent: Double { Double(stolen) * 100 / Double(max(all, 1)) }

        fileprivate init(all: UInt64, stolen: UInt64) { (self.all, self.stolen) = (all, stolen) }
        init() {}

        static func += (sum: inout Spent, more: Spent) {
            sum.all += more.all
            sum.stolen += more.stolen
        }
    }

    func spent(since earlier: MachineTime) -> Spent { Spent(all: all - earlier.all, stolen: stolen - earlier.stolen) }
}
