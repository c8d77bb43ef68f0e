import Foundation
import Synchronization
import Testing

@testable import EventLog

@Suite("Rows on their way into the archive, part by part") struct RowEncodingTests {
    /// A hundred rows, each a part; one may fail, and each may be held up.
    private struct Parts: FrozenRows {
        let numbers: Range<Int>
        let failing: Int?
        let encoded: Shared

        final class Shared: Sendable {
            let numbers = Mutex<[Int]>([])
            let mayGoOn = Monitor(true)
        }

        func encode(into batch: inout RowBatch) throws {
            for number in numbers {
                encoded.mayGoOn.withLock(waitingWhile: { !$0 }) { _ in }
                encoded.numbers.withLock { $0.append(number) }
                if number == failing { throw EventLogError(.diskFull, "as the test wants it") }
                batch.put([UInt8(number)]) { $0.put(byte: UInt8(number)) }
            }
        }

        func split(into count: Int) -> [any FrozenRows] { numbers.map { Parts(numbers: $0..<$0 + 1, failing: failing, encoded: encoded) } }
    }

    private let directory = TemporaryDirectory()

    /// With a place to write to.
    private func encoding(_ threads: Int, failing: Int? = nil, _ shared: Parts.Shared, _ body: (EventStore, RowEncoding) throws -> Void) throws {
        var options = StoreOptions()
        options.folds = [Tally(savesSoon: false)]
        let store = try EventStore.open(at: directory.path + "/store \(Int.random(in: 0 ... .max))", options: options)
        try body(store, RowEncoding([(store.folds[0], Parts(numbers: 0..<100, failing: failing, encoded: shared))], position: 0, threads: threads))
        try store.close()
    }

    @Test("All parts are handed out, each encoded once, whoever encodes them", arguments: [0, 1, 3]) func all(_ threads: Int) throws {
        let shared = Parts.Shared()
        try encoding(threads, shared) { store, encoding in
            #expect(try encoding.hasRows())
            var batches = 0
            for _ in 0..<2 { try encoding.forEachBatch { batches += $0.isEmpty ? 0 : 1 } }
            #expect(batches == 200 && encoding.isDone && encoding.rows.count == 100)
            #expect(shared.numbers.withLock { $0.sorted() } == Array(0..<100))
            try store.write([encoding])
            var rows: [[UInt8]] = []
            try store.folds[0].table!.forEach(withPrefix: []) { key, value in
                #expect(key.elementsEqual(value))
                rows.append(Array(key))
                return true
            }
            #expect(rows == (0..<100).map { [UInt8($0)] })
        }
    }

    @Test("What cannot be encoded fails the whole; nothing is written", arguments: [0, 1, 3]) func fails(_ threads: Int) throws {
        try encoding(threads, failing: 70, Parts.Shared()) { store, encoding in
            #expect(throws: EventLogError.self) { try store.write([encoding]) }
            let isEmpty = try store.folds[0].table!.isEmpty()
            #expect(isEmpty)
        }
    }

    @Test("One that is stopped begins no further part, and ends those that were begun") func stops() throws {
        // Whoever stops may come late on a busy machine: then all were begun before.
        var begun = Int.max
        for round in 1...10 where begun > 2 {
            let shared = Parts.Shared()
            shared.mayGoOn.withLock { $0 = false }
            try encoding(2, shared) { _, encoding in
                let hasStopped = Monitor(false)
                WorkerThread.start {
                    encoding.stop()
                    hasStopped.withLock { $0 = true }
                    hasStopped.wakeAll()
                }
                usleep(UInt32(round) * 20_000)
                shared.mayGoOn.withLock { $0 = true }
                shared.mayGoOn.wakeAll()
                hasStopped.withLock(waitingWhile: { !$0 }) { _ in }
            }
            begun = shared.numbers.withLock { $0.count }
        }
        #expect(begun <= 2)
    }
}
