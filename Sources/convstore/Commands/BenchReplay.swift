import ArgumentParser
import EventLog

struct BenchReplay: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Reads all events in the order of their commits and tells how fast that was.",
        discussion: "Percentiles are of slices of 1,000 events.")
    private static let slice: UInt64 = 1000

    @OptionGroup var store: StoreOption
    @Flag(help: "Print one JSON object.")
    var json = false

    func run() throws {
        let bytesBefore = ProcessUsage.bytesWritten
        let result = try store.read { store in
            var events: UInt64 = 0
            var times: [Double] = []
            var progress = ProgressBar("Replaying")
            let total = Double(store.lastPosition)
            let start = ContinuousClock.now
            var last = start
            try store.replay { _ in
                events += 1
                if events % Self.slice == 0 {
                    let now = ContinuousClock.now
                    times.append((now - last).seconds)
                    last = now
                    progress.update(done: Double(events), total: total, count: Int(events), "events")
                }
                return true
            }
            let end = ContinuousClock.now
            progress.clear()
            if events % Self.slice != 0, times.isEmpty { times.append((end - last).seconds) }
            return Measurement(events: Int(events), seconds: (end - start).seconds, times: times)
        }
        try result.print(bytesWritten: ProcessUsage.bytesWritten - bytesBefore, asJSON: json)
    }
}
