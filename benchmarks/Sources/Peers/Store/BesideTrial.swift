internal import ConversationStore
internal import EventLog
internal import Synchronization

/// Whether reads wait for writes (I8): one thread reads newest pages of random conversations and lobbies, alone and while another commits, with the
/// flushes and the saving of rows that this brings.
public struct BesideTrial: Sendable {
    /// Events a commit; 0: nobody writes.
    public var batch: Int
    public var eventsPerSecond = 0.0
    /// How long a read took, in seconds, ascending.
    public var pages: [Double] = []
    public var lobbies: [Double] = []

    /// - Parameter preload: events of `items` that the store holds before; the others are appended while it is read.
    public static func run(batches: [Int], seconds: Double, preload: Int, _ items: [Item], directory: String) throws -> [BesideTrial] {
        let store = try ConversationStore.open(at: directory + "/store")
        func append(_ range: Range<Int>) throws { _ = try store.log.appendBlocking(items[range].map { Submission($0.event) }) }
        for start in stride(from: 0, to: preload, by: 4096) { try append(start..<min(start + 4096, preload)) }
        try store.log.flush()
        var conversations: [ConversationID] = []
        var users: [UserID] = []
        for item in items[..<preload] {
            guard case .conversationCreated = item.event.content, case .conversation(let id) = item.event.log else { continue }
            conversations.append(id)
            users.append(item.event.author)
        }
        var trials: [BesideTrial] = []
        var next = preload
        for batch in batches {
            let first = next
            let start = ContinuousClock.now
            let progress = Progress()
            let write: @Sendable () -> Void = {
                var place = first
                while !progress.isDone.load(ordering: .relaxed), place + batch <= items.count {
                    do { _ = try store.log.appendBlocking(items[place..<place + batch].map { Submission($0.event) }) } catch { return }
                    place += batch
                    progress.appended.store(place - first, ordering: .relaxed)
                }
            }
            let writer = batch == 0 ? nil : WorkThread(write)
            var trial = BesideTrial(batch: batch)
            var random = SystemRandomNumberGenerator()
            let end = start + .seconds(seconds)
            while true {
                let place = Int.random(in: 0..<conversations.count, using: &random)
                let begun = ContinuousClock.now
                if begun > end { break }
                _ = try store.timeline(of: conversations[place], limit: 50)
                let between = ContinuousClock.now
                trial.pages.append(StallTrial.seconds(begun..<between))
                if trial.pages.count % 8 == 0 {
                    _ = try store.lobby(of: users[place])
                    trial.lobbies.append(StallTrial.seconds(between..<ContinuousClock.now))
                }
            }
            progress.isDone.store(true, ordering: .relaxed)
            writer?.join()
            next = first + progress.appended.load(ordering: .relaxed)
            trial.eventsPerSecond = Double(next - first) / StallTrial.seconds(start..<ContinuousClock.now)
            trial.pages.sort()
            trial.lobbies.sort()
            trials.append(trial)
        }
        try store.close()
        return trials
    }

    private final class Progress: Sendable {
        let isDone = Atomic(false)
        let appended = Atomic(0)
    }

    /// A Markdown table of trials.
    public static func markdown(_ trials: [BesideTrial]) -> String {
        var lines = [
            "| events a commit beside | events/s | pages read | p50 us | p99 us | p99.9 us | max us | lobbies read | p50 us | p99 us | p99.9 us | max us |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        func cells(_ values: [Double]) -> [String] {
            func at(_ share: Double) -> String { values.isEmpty ? "" : fixed(values[min(values.count - 1, Int(Double(values.count) * share))] * 1e6, 1) }
            return [grouped(Double(values.count)), at(0.5), at(0.99), at(0.999), at(1)]
        }
        for trial in trials {
            let name = trial.batch == 0 ? "nobody writes" : "\(trial.batch)"
            lines.append("| " + ([name, grouped(trial.eventsPerSecond)] + cells(trial.pages) + cells(trial.lobbies)).joined(separator: " | ") + " |")
        }
        return lines.joined(separator: "\n")
    }
}
