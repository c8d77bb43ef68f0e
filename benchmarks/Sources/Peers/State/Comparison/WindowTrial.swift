import EventLog

/// Context windows, and of the same conversations the pages of as many messages, in turn: what a window costs beyond its messages.
struct WindowTrial: Sendable {
    static let budget = 8000

    /// Microseconds of each read, ascending.
    var windows: [Double] = []
    var pages: [Double] = []
    var messages = 0

    func percentile(_ share: Double, of reads: [Double]) -> Double { reads.isEmpty ? 0 : reads[min(reads.count - 1, Int(Double(reads.count) * share))] }

    /// Of all reads together.
    var ratio: Double { windows.reduce(0, +) / pages.reduce(0, +) }

    static func run(_ reader: any WindowReader, _ conversations: [ConversationID]) throws -> WindowTrial {
        var trial = WindowTrial()
        // Untimed first, so that what is timed is warm.
        let counts = try conversations.map { try reader.readWindow(of: $0, budget: budget).rows }
        for (id, count) in zip(conversations, counts) { _ = try reader.readPage(of: id, limit: count) }
        for (place, (id, count)) in zip(conversations, counts).enumerated() where count > 0 {
            // In turn, so that neither always finds what the other has just read.
            let isFirst = place & 1 == 0
            if isFirst { trial.windows.append(try time { try reader.readWindow(of: id, budget: budget).rows }) }
            trial.pages.append(try time { try reader.readPage(of: id, limit: count).rows })
            if !isFirst { trial.windows.append(try time { try reader.readWindow(of: id, budget: budget).rows }) }
            trial.messages += count
        }
        trial.windows.sort()
        trial.pages.sort()
        return trial
    }

    private static func time(_ body: () throws -> Int) throws -> Double {
        let start = Trial.nanoseconds()
        guard try body() > 0 else { throw EngineError("nothing was read") }
        return Double(Trial.nanoseconds() - start) / 1000
    }
}
