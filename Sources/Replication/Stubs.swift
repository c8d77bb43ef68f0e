package import EventLog
package import ConversationStore
package final class HeadCache: Sendable {
    package init(store: EventStore) {}
    package func tree(of log: LogID, through seq: Seq) throws -> CompactRange? { nil }
    package static func extend(_ tree: CompactRange, with events: [RecordedEvent], seeds: PuncturedSeeds) throws -> CompactRange { tree }
}
package struct PendingEvent: Sendable { package var event: Event; package var origin: Origin; package var failure: Refusal?; package var isWaiting: Bool }
package struct Preview: Sendable { package var base: [UInt8]?; package var baseSeq: Seq; package var events: [RecordedEvent]; package var hole: ClosedRange<Seq> }
extension ConversationStore {
    package func setPending(_ events: [PendingEvent], of conversation: ConversationID) {}
    package func setPreview(_ preview: Preview?, of conversation: ConversationID) {}
    package func encodedBase(of conversation: ConversationID, at seq: Seq) throws -> (base: [UInt8], seq: Seq)? { nil }
}
extension EventStore { package var clock: HLC { HLC(rawValue: 0) } }
extension Submission { package var isFirstSending: Bool { get { false } set {} } }
package final class SegmentEncoder { package init() {}
 package func encode(_ events: [RecordedEvent]) throws -> [UInt8] { [] } }
package enum SegmentCodec { package static func decode(_ bytes: [UInt8]) throws -> [RecordedEvent] { [] } }
package struct StoredRun: Sendable {
    package var bytes: [UInt8]
    package var firstPosition: Position
    package var eventCount: Int
    package var slices: [(log: LogID, firstSeq: Seq, count: Int)]
}
extension EventStore { package func storedRun(containing position: Position) throws -> StoredRun? { nil } }
