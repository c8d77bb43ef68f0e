import EventLog

/// `--acks`: a line for each event as it becomes durable.
struct AckFile: ~Copyable {
    /// Acknowledgements of a relaxed store wait here for the sync.
    private struct Waiting {
        var position: Position
        var bytes: [UInt8]
    }

    /// A relaxed store is synced when so many batches wait.
    private static let waitingMax = 64

    private var file: OutputFile
    private var waiting: [Waiting] = []

    init(creating path: String) throws { file = try OutputFile(creating: path) }

    /// Takes a batch's answers; writes them once the store says that they are durable.
    mutating func write(_ lines: [Int], _ outcomes: some Collection<AppendOutcome>, _ store: EventStore) throws {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(outcomes.count * 72)
        var last: Position = 0
        var isDurable = true
        for (line, outcome) in zip(lines, outcomes) {
            switch outcome {
            case .accepted(let receipt):
                Self.append(line, "accepted", receipt, to: &bytes)
                isDurable = isDurable && receipt.isDurable
                last = max(last, receipt.position)
            case .duplicate(let receipt):
                Self.append(line, "duplicate", receipt, to: &bytes)
                last = max(last, receipt.position)
            case .refused, .withdrawn, .undecided: continue
            }
        }
        if waiting.isEmpty, isDurable, last <= store.lastPosition {
            try file.write(bytes)
            try file.flush()
            return
        }
        waiting.append(Waiting(position: last, bytes: bytes))
        if waiting.count >= Self.waitingMax { try store.flush() }
        try release(store)
    }

    /// Makes everything durable and writes what still waits.
    mutating func finish(_ store: EventStore) throws {
        if !waiting.isEmpty {
            try store.flush()
            try release(store)
        }
        try file.flush()
    }

    private mutating func release(_ store: EventStore) throws {
        let durable = store.lastPosition
        while let first = waiting.first, first.position <= durable {
            try file.write(first.bytes)
            waiting.removeFirst()
        }
        try file.flush()
    }

    private static func append(_ line: Int, _ outcome: StaticString, _ receipt: Receipt, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: "{\"line\":\(line),\"outcome\":\"\(outcome)\",\"seq\":\(receipt.seq),\"position\":\(receipt.position)}\n".utf8)
    }
}
