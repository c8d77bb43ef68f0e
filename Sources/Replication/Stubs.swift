package import EventLog
package import ConversationStore
package struct PendingEvent: Sendable { package var event: Event; package var origin: Origin; package var failure: Refusal?; package var isWaiting: Bool }
package struct Preview: Sendable { package var base: [UInt8]?; package var baseSeq: Seq; package var events: [RecordedEvent]; package var hole: ClosedRange<Seq> }
extension ConversationStore {
    package func setPending(_ events: [PendingEvent], of conversation: ConversationID) {}
    package func setPreview(_ preview: Preview?, of conversation: ConversationID) {}
    package func encodedBase(of conversation: ConversationID, at seq: Seq) throws -> (base: [UInt8], seq: Seq)? { nil }
}
