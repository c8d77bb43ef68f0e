import EventLog
import Testing

@testable import Replication

/// Which own events are offered with the times by which they counted.
@Suite struct OfferedTimesTests {
    private static let chat = ConversationID(high: 1, low: 1)
    private static let replica = ReplicaID(high: 2, low: 2)

    /// - Parameters:
    ///   - made: its maker's clock.
    ///   - recorded: the lost hub's.
    private func write(_ title: String?, colour: String? = nil, made: UInt64, recorded: UInt64) -> RecordedEvent {
        let attributes = colour.map { [Event.Attribute(name: "colour", value: $0)] } ?? []
        let event = Event(conversation: Self.chat, author: ada, content: .conversationUpdated(title: title, attributes: attributes))
        let origin = Origin(replica: Self.replica, counter: recorded, hlc: HLC(rawValue: made))
        return RecordedEvent(
            log: .conversation(Self.chat), seq: recorded, position: recorded, origin: origin, hlc: HLC(rawValue: recorded), event: event, targetSeq: nil)
    }

    private func times(_ own: [RecordedEvent], others: [RecordedEvent] = [], waiting: [UInt64] = []) -> [UInt64] {
        let entries = waiting.map { time in
            OutboxEntry(
                id: time, event: write("waiting", made: time, recorded: 0).event, origin: Origin(replica: Self.replica, counter: 0, hlc: HLC(rawValue: time)),
                nonce: [])
        }
        return OfferedTimes.offered(own, others: { others }, waiting: entries).map(\.origin.hlc.rawValue)
    }

    @Test func whatWasWrittenOver() {
        let ahead = write("ahead", made: 300, recorded: 10)
        #expect(times([ahead]) == [300])
        // By another, by its own device with the clock set right, and by what waits.
        #expect(times([ahead], others: [write("other", made: 15, recorded: 15)]) == [10])
        #expect(times([ahead, write("right", made: 16, recorded: 17)]) == [10, 16])
        #expect(times([ahead], waiting: [20]) == [10])
        // By another whose clock is ahead too: when that comes again is not known.
        #expect(times([ahead], others: [write("other", made: 400, recorded: 15)]) == [10])
        // By what its device wrote further ahead: that is offered behind it.
        #expect(times([ahead, write("further", made: 301, recorded: 11)], waiting: [302]) == [300, 301])
        // Not by what was written before, or of something else.
        #expect(times([ahead], others: [write("before", made: 9, recorded: 9), write(nil, colour: "red", made: 15, recorded: 15)], waiting: [8]) == [300])
        // A clock that was not ahead.
        #expect(times([write("true", made: 9, recorded: 10)], others: [write("other", made: 15, recorded: 15)]) == [9])
    }

    @Test func whatIsOfferedEarlierForAnother() {
        // The second is offered with an earlier time, as its title was written over: so is what its colour wrote over.
        let own = [write(nil, colour: "red", made: 200, recorded: 5), write("ahead", colour: "blue", made: 300, recorded: 10)]
        #expect(times(own) == [200, 300])
        #expect(times(own, others: [write("other", made: 15, recorded: 15)]) == [5, 10])
    }
}
