/// Frozen rows that are encoded on threads of their own, part by part, while events are folded on. Who needs them helps.
///
/// Nothing may freeze the same rows' successors and write them before these are written, or taken back.
final class RowEncoding: Sendable {
    private struct State {
        /// The parts before it were begun.
        var next = 0
        var running = 0
        /// By part.
        var results: [Result<[FoldBatch], any Error>?]
    }

    /// What is encoded, each part by itself.
    let rows: [(slot: FoldSlot, rows: any FrozenRows)]
    private let position: Position
    private let state: Monitor<State>

    /// So many parts are made of a fold's rows, if they are many.
    private static let partsMax = 8

    /// - Parameter threads: how many encode; with 0 the caller does, at once.
    init(_ rows: [(slot: FoldSlot, rows: any FrozenRows)], position: Position, threads: Int) {
        let parts = rows.flatMap { slot, rows in rows.split(into: Self.partsMax).map { (slot: slot, rows: $0) } }
        self.rows = parts
        self.position = position
        state = Monitor(State(results: Array(repeating: nil, count: parts.count)))
        if threads == 0 { while encodeNext() {} }
        for _ in 0..<min(threads, parts.count) { WorkerThread.start { [self] in while encodeNext() {} } }
    }

    /// Encodes a part that nobody has begun; false if there is none.
    private func encodeNext() -> Bool {
        let part = state.withLock { state -> Int? in
            guard state.next < rows.count else { return nil }
            state.next += 1
            state.running += 1
            return state.next - 1
        }
        guard let part else { return false }
        let encoded = Result { try FoldBatch.encode([rows[part]], position: position) }
        state.withLock {
            $0.running -= 1
            $0.results[part] = encoded
        }
        state.wakeAll()
        return true
    }

    var isDone: Bool { state.withLock { state in state.results.allSatisfy { $0 != nil } } }

    /// The batches of a part; encodes others until that is there.
    private func batches(of part: Int) throws -> [FoldBatch] {
        while state.withLock({ $0.results[part] == nil }), encodeNext() {}
        return try state.withLock(waitingWhile: { $0.results[part] == nil }) { try $0.results[part]!.get() }
    }

    /// Whether there is anything to write.
    func hasRows() throws -> Bool { try rows.indices.contains { try batches(of: $0).contains { !$0.isEmpty } } }

    /// Hands out all batches, as they become ready.
    func forEachBatch(_ body: (FoldBatch) throws -> Void) throws { for part in rows.indices { try batches(of: part).forEach(body) } }

    /// Begins no further part, and waits for those that are at one.
    func stop() {
        state.withLock { $0.next = rows.count }
        state.withLock(waitingWhile: { $0.running > 0 }) { _ in }
    }
}
