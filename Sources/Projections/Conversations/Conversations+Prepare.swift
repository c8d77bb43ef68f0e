internal import CPrefetch
import EventLog

extension Conversations {
    /// Has the rows of events that are folded next fetched from memory, all at once: folding them one by one would wait for each.
    func prepare(_ events: UnsafeBufferPointer<RecordedEvent>) {
        // One event's row is fetched while it is folded.
        if events.count < 4 { return }
        withUnsafeTemporaryAllocation(of: UnsafePointer<ConversationRow?>.self, capacity: events.count) { places in
            var count = 0
            for index in events.indices {
                guard let row = rows.place(inMemory: (events.baseAddress! + index).pointee.event.conversation) else { continue }
                for offset in stride(from: -Self.headerBytes, to: MemoryLayout<ConversationRow>.size, by: Self.lineBytes) {
                    convstore_prefetch(UnsafeRawPointer(row) + offset)
                }
                places[count] = row
                count += 1
            }
            // They have come now: what they refer to. The array's reference is read as bits, as counting it would wait for it.
            for place in places[..<count] {
                if case .none = place.pointee { continue }
                let people = UnsafeRawPointer(place).loadUnaligned(fromByteOffset: Self.peopleOffset, as: UInt.self)
                guard let people = UnsafeRawPointer(bitPattern: people) else { continue }
                for line in 0..<3 { convstore_prefetch(people + line * Self.lineBytes) }
            }
        }
    }

    private static var lineBytes: Int { 64 }
    /// What stands before a row in its box.
    private static var headerBytes: Int { 32 }
    private static let peopleOffset = MemoryLayout<ConversationRow>.offset(of: \.people)!
}
