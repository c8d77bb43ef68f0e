import FoundationEssentials

/// A comparison's figures: medians over the rounds; the longest commit of all rounds; of the whole device's bytes the least, since
/// other processes can only add to them.
public struct Report: Encodable {
    struct Row: Encodable {
        var what: String
        var batch: Int
        var engine: String
        var eventsPerSecond: Double
        var ratio: Double?
        var p50Us: Double
        var p99Us: Double
        var maxUs: Double
        var bytesWrittenPerEvent: Double
        var deviceBytesPerEvent: Double?
        var closedDeviceBytesPerEvent: Double?
        var rounds: [Double]
    }

    struct Scan: Encodable {
        var order: String
        var engine: String
        var eventsPerSecond: Double
        var ratio: Double?
    }

    struct Size: Encodable {
        var engine: String
        var bytes: Int
        var bytesPerEvent: Double
    }

    var machine: String
    var input: String
    var messageIds: Bool
    var preload: Int
    var appends: [Row] = []
    var scans: [Scan] = []
    var sizes: [Size] = []

    public init(_ comparison: Comparison, machine: String, input: String) {
        (self.machine, self.input) = (machine, input)
        (messageIds, preload) = (comparison.plan.keepsIDs, comparison.plan.preload)
        let base = comparison.plan.engines.first { $0 == .rocksdb } ?? comparison.plan.engines[0]
        for subject in comparison.subjects {
            let rate = { (engine: EngineKind) -> Double? in
                comparison.trials[.init(subject: subject, engine: engine)].map { median($0.map(\.eventsPerSecond)) }
            }
            for engine in comparison.plan.engines {
                guard let trials = comparison.trials[.init(subject: subject, engine: engine)], let own = rate(engine) else { continue }
                let device = trials.compactMap { trial in trial.deviceBytes.map { Double($0) / Double(trial.events) } }
                let closed = trials.compactMap { trial in trial.closedDeviceBytes.map { Double($0) / Double(trial.events) } }
                appends.append(
                    Row(
                        what: subject.title, batch: subject.batch, engine: engine.rawValue, eventsPerSecond: own,
                        ratio: rate(base).map { own / $0 },
                        p50Us: median(trials.map { $0.percentile(0.5) }), p99Us: median(trials.map { $0.percentile(0.99) }),
                        maxUs: trials.compactMap(\.commits.last).max() ?? 0,
                        bytesWrittenPerEvent: median(trials.map { Double($0.writtenBytes) / Double($0.events) }),
                        deviceBytesPerEvent: device.min(),
                        closedDeviceBytesPerEvent: closed.min(), rounds: trials.map(\.eventsPerSecond)))
            }
        }
        for order in ScanOrder.allCases {
            guard let rates = comparison.scans[order.rawValue] else { continue }
            let sqlite = rates[.sqlite].map(median)
            for engine in comparison.plan.engines {
                guard let own = rates[engine].map(median) else { continue }
                scans.append(Scan(order: order.rawValue, engine: engine.rawValue, eventsPerSecond: own, ratio: sqlite.map { own / $0 }))
            }
        }
        for engine in comparison.plan.engines where engine != .file {
            guard let size = comparison.sizes[engine] else { continue }
            sizes.append(Size(engine: engine.rawValue, bytes: size.bytes, bytesPerEvent: Double(size.bytes) / Double(size.events)))
        }
    }

    public var json: String {
        get throws {
            let encoder = JSONEncoder()
            encoder.keyEncodingStrategy = .convertToSnakeCase
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        }
    }

    public var markdown: String {
        var lines = ["\(machine); data: \(input); message ids \(messageIds ? "kept and looked up" : "not kept").", ""]
        if !appends.isEmpty {
            lines.append(
                "| what | events a commit | engine | events/s | ÷ RocksDB | p50 us | p99 us | max us | bytes/event written | device bytes/event | until closed |"
            )
            lines.append("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|")
            for row in appends {
                let cells = [
                    row.what, "\(row.batch)", row.engine, grouped(row.eventsPerSecond), row.ratio.map { fixed($0, 2) } ?? "",
                    fixed(row.p50Us, 0),
                    fixed(row.p99Us, 0), grouped(row.maxUs), grouped(row.bytesWrittenPerEvent), row.deviceBytesPerEvent.map(grouped) ?? "",
                    row.closedDeviceBytesPerEvent.map(grouped) ?? "",
                ]
                lines.append("| " + cells.joined(separator: " | ") + " |")
            }
            lines.append("")
        }
        if !scans.isEmpty {
            lines += ["| scan of \(grouped(Double(preload))) events in | engine | events/s | ÷ SQLite |", "|---|---|---:|---:|"]
            for scan in scans {
                lines.append(
                    "| \(scan.order) order | \(scan.engine) | \(grouped(scan.eventsPerSecond)) | \(scan.ratio.map { fixed($0, 2) } ?? "") |"
                )
            }
            lines.append("")
        }
        if !sizes.isEmpty {
            lines += ["| closed store of \(grouped(Double(preload))) events | bytes (du) | bytes/event |", "|---|---:|---:|"]
            for size in sizes { lines.append("| \(size.engine) | \(grouped(Double(size.bytes))) | \(fixed(size.bytesPerEvent, 1)) |") }
            lines.append("")
        }
        return lines.joined(separator: "\n")
    }
}
