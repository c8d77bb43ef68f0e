import Benchmark
import FoundationEssentials
import Peers

/// Durable appends under ordo-one/benchmark: wall clock, throughput and peak memory of 200 commits of 16 events on a new store.
/// BENCHMARK_INPUT names the events (dataset.py). Percentiles of single commits and ratios come from `peers`.
let benchmarks: @Sendable () -> Void = {
    guard let input = ProcessInfo.processInfo.environment["BENCHMARK_INPUT"] else { return print("BENCHMARK_INPUT is not set") }
    let items: [Item]
    do { items = try Loader.load(input, limit: 3200) } catch { return print(error) }
    for engine in EngineKind.allCases {
        Benchmark(
            "\(engine.rawValue): 200 commits of 16 events",
            configuration: .init(metrics: [.wallClock, .throughput, .peakMemoryResident], maxDuration: .seconds(3))
        ) { benchmark in
            let directory = "benchmark.tmp-\(ProcessInfo.processInfo.processIdentifier)"
            do {
                try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
                defer { try? FileManager.default.removeItem(atPath: directory) }  // Scratch.
                let store = try engine.open(directory: directory, held: [], options: EngineOptions())
                benchmark.startMeasurement()
                for at in stride(from: 0, to: items.count, by: 16) { try store.append(items[at..<min(at + 16, items.count)]) }
                benchmark.stopMeasurement()
                try store.close()
            } catch {
                benchmark.error("\(error)")
            }
        }
    }
}
