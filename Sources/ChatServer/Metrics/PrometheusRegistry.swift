package import CoreMetrics
import EventLog

/// The metrics of swift-metrics, kept for `/metrics`: counters, gauges, and histograms of times and of what is recorded.
///
/// A label is the metric's name; characters that Prometheus does not allow become `_`.
package final class PrometheusRegistry: MetricsFactory {
    struct Key: Hashable {
        var name: String
        var labels: [[String]]
    }

    private let cells = Monitor<[Key: Cell]>([:])

    package init() {}

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler { cell(label, dimensions, .counter) }
    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler { cell(label, dimensions, .gauge) }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        cell(label, dimensions, aggregate ? .histogram(Cell.sizes) : .gauge)
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler { cell(label, dimensions, .histogram(Cell.seconds)) }

    package func destroyCounter(_ handler: any CounterHandler) { remove(handler) }
    package func destroyMeter(_ handler: any MeterHandler) { remove(handler) }
    package func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }
    package func destroyTimer(_ handler: any TimerHandler) { remove(handler) }

    private func cell(_ label: String, _ dimensions: [(String, String)], _ kind: Cell.Kind) -> Cell {
        let key = Key(name: Self.name(label), labels: dimensions.map { [Self.name($0), $1] })
        return cells.withLock { cells in
            if let cell = cells[key] { return cell }
            let cell = Cell(kind)
            cells[key] = cell
            return cell
        }
    }

    private func remove(_ handler: AnyObject) {
        cells.withLock { cells in cells = cells.filter { $0.value !== handler } }
    }

    private static func name(_ label: String) -> String {
        String(
            label.utf8.map { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "_"), UInt8(ascii: ":"): Character(Unicode.Scalar(byte))
                default: "_"
                }
            })
    }

    func write(to text: inout PrometheusText) {
        let all = cells.withLock { $0 }.sorted { ($0.key.name, $0.key.labels.description) < ($1.key.name, $1.key.labels.description) }
        var last: String?
        for (key, cell) in all {
            if key.name != last { text.head(key.name, nil, cell.kind.name) }
            last = key.name
            cell.write(key.name, key.labels.map { ($0[0], $0[1]) }, to: &text)
        }
    }
}

/// One metric with its labels.
final class Cell: CounterHandler, MeterHandler, RecorderHandler, TimerHandler {
    enum Kind {
        case counter
        case gauge
        /// With the upper bounds of its buckets.
        case histogram([Double])

        var name: String {
            switch self {
            case .counter: "counter"
            case .gauge: "gauge"
            case .histogram: "histogram"
            }
        }
    }

    static let seconds = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
    static let sizes: [Double] = [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 8_388_608]

    private struct Value {
        var sum = 0.0
        /// Of each bucket by itself, and at the end of what is beyond the last.
        var counts: [UInt64]
    }

    let kind: Kind
    private let value: Monitor<Value>

    init(_ kind: Kind) {
        self.kind = kind
        if case .histogram(let bounds) = kind {
            value = Monitor(Value(counts: Array(repeating: 0, count: bounds.count + 1)))
        } else {
            value = Monitor(Value(counts: []))
        }
    }

    func increment(by amount: Int64) { value.withLock { $0.sum += Double(amount) } }
    func reset() { value.withLock { $0.sum = 0 } }
    func set(_ amount: Int64) { set(Double(amount)) }
    func set(_ amount: Double) { value.withLock { $0.sum = amount } }
    func increment(by amount: Double) { value.withLock { $0.sum += amount } }
    func decrement(by amount: Double) { value.withLock { $0.sum -= amount } }
    func record(_ amount: Int64) { record(Double(amount)) }
    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

    func record(_ amount: Double) {
        guard case .histogram(let bounds) = kind else { return set(amount) }
        let bucket = bounds.firstIndex { amount <= $0 } ?? bounds.count
        value.withLock { value in
            value.sum += amount
            value.counts[bucket] += 1
        }
    }

    func write(_ name: String, _ labels: [(String, String)], to text: inout PrometheusText) {
        let value = value.withLock { $0 }
        guard case .histogram(let bounds) = kind else { return text.sample(name, labels, value.sum) }
        var count: UInt64 = 0
        for (index, bound) in (bounds + [.infinity]).enumerated() {
            count += value.counts[index]
            text.sample(name + "_bucket", labels + [("le", PrometheusText.number(bound))], Double(count))
        }
        text.sample(name + "_sum", labels, value.sum)
        text.sample(name + "_count", labels, Double(count))
    }
}
