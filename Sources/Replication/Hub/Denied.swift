internal import ConversationStore

/// Names of which a peer was told that there is nothing. It makes them up as it likes: beyond a bound all logs count as named.
struct Denied {
    private var logs: Set<LogID> = []
    private var isFull = false
    private static let countMax = 1024

    var count: Int { logs.count }
    var isEmpty: Bool { logs.isEmpty && !isFull }

    mutating func insert(_ log: LogID) {
        if isFull { return }
        logs.insert(log)
        guard logs.count > Self.countMax else { return }
        isFull = true
        logs = []
    }

    func contains(_ log: LogID) -> Bool { isFull || logs.contains(log) }
}
