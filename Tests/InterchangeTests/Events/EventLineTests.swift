import EventLog
import Foundation
import Interchange
import Testing

@Suite("Event lines") struct EventLineTests {
    static let awkward =
        "quote \" backslash \\ slash / \u{0}\u{1}\n\r\t\u{8}\u{C}\u{1F} \u{7F}\u{80}\u{9F}\u{A0} \u{2027}\u{2028}\u{2029}\u{202A} é e\u{301} 東京 🙂"

    /// One of each kind, and what is special in some.
    static var contents: [Event.Content] {
        let id = MessageID(high: 0x0123_4567_89AB_CDEF, low: 0xFEDC_BA98_7654_3210)
        let other = MessageID(high: 1, low: 2)
        let users = [UserID("ann")!, UserID("ユーザー")!, UserID("o'brien@example.org \u{2028}\u{7F}")!]
        return [
            .conversationCreated(kind: .direct, title: nil, participants: []),
            .conversationCreated(kind: .group, title: "", participants: users),
            .conversationCreated(kind: .assistant, title: awkward, participants: users),
            .conversationUpdated(title: "", attributes: []),
            .conversationUpdated(title: nil, attributes: [.init(name: "a", value: nil)]),
            .conversationUpdated(
                title: awkward,
                attributes: [.init(name: "a", value: awkward), .init(name: "e\u{301}", value: ""), .init(name: "é", value: nil)]),
            .participantJoined(users[1]), .participantLeft(users[2]),
            .messageSent(.init(id: id, role: .user, text: "")),
            .messageSent(
                .init(id: id, role: .assistant, text: awkward, isStreaming: true, replyTo: other, parts: "[]", requestID: awkward)),
            .messageSent(
                .init(id: id, role: .system, text: awkward, parts: #"[{"a":[1,1.0,1e+16,null],"b":"\ud83d\u007f\"\\"},NaN,-Infinity]"#)),
            .messageSent(.init(id: id, role: .tool, text: String(repeating: awkward, count: 500), requestID: "")),
            .chunkAppended(message: id, index: 0, text: ""), .chunkAppended(message: id, index: .max, text: awkward),
            .messageCompleted(message: id, finishReason: nil, usage: nil),
            .messageCompleted(message: id, finishReason: "stop", usage: .init(inputTokens: 0, outputTokens: .max)),
            .messageInterrupted(message: id, reason: ""), .messageInterrupted(message: id, reason: "user"),
            .messageEdited(message: id, text: awkward), .messageDeleted(message: id),
            .reactionSet(message: id, emoji: "👩‍👩‍👧‍👦", isOn: true), .reactionSet(message: id, emoji: "\u{1}", isOn: false),
            .receiptDelivered(upTo: id), .receiptRead(upTo: id),
            .preferenceSet(key: "draft", value: awkward), .preferenceSet(key: "pinned", value: nil),
        ] + (0...5).map { .custom(name: "app.poll", payload: Array((0xFA...0xFF).prefix($0))) }
    }

    static func record(_ content: Event.Content, seq: Seq = 7) -> RecordedEvent {
        let event = Event(
            conversation: ConversationID(high: 0xA1A2_A3A4_A5A6_4789, low: 0x8123_4567_89AB_CDEF), author: UserID("ann\"\n")!,
            content: content)
        let origin = Origin(
            replica: ReplicaID(high: .max, low: 0), counter: .max, hlc: HLC(milliseconds: 1_700_000_000_123, counter: 0xBEEF))
        return RecordedEvent(
            log: event.log, seq: seq, position: 1_234_567, origin: origin, hlc: HLC(milliseconds: 1_700_000_000_456, counter: 3),
            event: event,
            targetSeq: 5)
    }

    @Test("decode(encode(x)) is x for every kind") func roundTrip() throws {
        var decoder = EventLineDecoder()
        for content in Self.contents {
            let record = Self.record(content)
            var line: [UInt8] = []
            #expect(EventLineEncoder().append(record, to: &line))
            #expect(line.last == 0x0A && line.dropLast().allSatisfy { $0 >= 0x20 && $0 != 0x7F })
            let decoded = try decoder.decode(line)
            #expect(decoded == EventLine(event: record.event, at: 1_700_000_000_123, origin: record.origin))
            #expect(decoder.log == record.log)
            // Swift's == on String is canonical equivalence: the bytes must be the same too.
            var again: [UInt8] = []
            var copy = record
            copy.event = decoded.event
            EventLineEncoder().append(copy, to: &again)
            #expect(again == line)
        }
    }

    @Test("a line's members stand in the contract's order") func orderOfMembers() {
        var line: [UInt8] = []
        EventLineEncoder().append(
            Self.record(.messageSent(.init(id: .init(high: 1, low: 2), role: .user, text: "a\"é\u{2028}", isStreaming: true))), to: &line)
        let expected =
            #"{"type":"message.sent","conversation_id":"a1a2a3a4-a5a6-4789-8123-456789abcdef","author":"ann\"\n","at":"2023-11-14T22:13:20.123Z","#
            + #""message_id":"00000000-0000-0001-0000-000000000002","role":"user","text":"a\"é\u2028","streaming":true,"#
            + #""seq":7,"position":1234567,"hlc":"018bcfe569c80003","#
            + #""origin":{"replica":"ffffffff-ffff-ffff-0000-000000000000","counter":18446744073709551615,"hlc":"018bcfe5687bbeef"}}"#
            + "\n"
        #expect(String(decoding: line, as: UTF8.self) == expected)
    }

    @Test("exact lines come back byte for byte, erased, unknown and uncanonical ones too") func exactRoundTrip() throws {
        var records = Self.contents.map { Self.record($0) }
        let id = MessageID(high: 1, low: 2)
        for content: Event.Content in [
            .unknown(kind: 99, body: [0, 255, 10]), .unknown(kind: .max, body: []),
            .messageCompleted(message: id, finishReason: "", usage: nil),
            .messageSent(.init(id: id, role: .user, text: String(repeating: "\u{1}", count: 1 << 20), parts: "[ 1,\n{\"b\":1,\"a\":2} ]")),
            .messageSent(.init(id: id, role: .user, text: "", parts: "\"}{ injected")), .conversationUpdated(title: nil, attributes: []),
            .reactionSet(message: id, emoji: "", isOn: false), .preferenceSet(key: "", value: nil), .custom(name: "", payload: []),
        ] { records.append(Self.record(content)) }
        records[records.count - 9].log = .user(records[0].event.author)
        for index in records.indices where index % 3 == 0 { records[index].isErased = true }
        for index in records.indices where index % 2 == 0 { records[index].targetSeq = nil }
        var decoder = EventLineDecoder()
        let encoder = EventLineEncoder(isExact: true)
        for (index, record) in records.enumerated() {
            let secret: [UInt8]? = index % 4 == 0 ? Array(0..<32) : nil
            var line: [UInt8] = []
            #expect(encoder.append(record, secret: secret, to: &line))
            let decoded = try decoder.decodeExact(line)
            #expect(decoded == ExactEventLine(record: record, secret: secret))
            var again: [UInt8] = []
            encoder.append(decoded.record, secret: decoded.secret, to: &again)
            #expect(again == line)
        }
    }

    @Test("what a newer version says in an event goes with an exact line, and must agree with its members") func newerFields() throws {
        let id = MessageID(high: 1, low: 2)
        for (content, envelope, body) in [
            (Event.Content.messageSent(.init(id: id, role: .user, text: "hi")), [14 << 3, 7], []), (.messageEdited(message: id, text: "hi"), [], [6 << 3, 9]),
            (.unknown(kind: 77, body: [8, 5]), [10 << 3 | 2, 16] + [UInt8](0..<16) + [11 << 3, 3], []),
        ] as [(Event.Content, [UInt8], [UInt8])] {
            var plain = Self.record(content)
            plain.targetSeq = nil
            plain.commitment = nil
            let bytes = EventCodec.encode(plain)
            let record = try EventCodec.decode(envelope: bytes.envelope + envelope, body: bytes.body + body, position: plain.position)
            var line: [UInt8] = []
            #expect(EventLineEncoder(isExact: true).append(record, to: &line))
            var decoder = EventLineDecoder()
            let decoded = try decoder.decodeExact(line).record
            #expect(decoded == record && EventCodec.encode(decoded) == (bytes.envelope + envelope, bytes.body + body))
            let other = String(decoding: line, as: UTF8.self).replacingOccurrences(of: "\"seq\":\(record.seq),", with: "\"seq\":\(record.seq + 1),")
            #expect(throws: Refusal(.malformed, "envelope")) { _ = try decoder.decodeExact(Array(other.utf8)) }
        }
    }

    @Test("a kind unknown here is written by an exact encoder only, and refused by the plain decoder") func unknownKinds() {
        let record = Self.record(.unknown(kind: 99, body: [1]))
        var line: [UInt8] = []
        #expect(!EventLineEncoder().append(record, to: &line))
        #expect(line.isEmpty)
        EventLineEncoder(isExact: true).append(record, to: &line)
        #expect(throws: Refusal(.malformed, "type")) {
            var decoder = EventLineDecoder()
            _ = try decoder.decode(line)
        }
    }

    @Test(
        "an origin that is not one is malformed",
        arguments: [
            #"7"#, #"[]"#, #"{}"#, #"{"replica":"x","counter":1,"hlc":"0000000000000001"}"#,
            #"{"replica":"00000000-0000-0000-0000-000000000001","counter":0,"hlc":"0000000000000001"}"#,
            #"{"replica":"00000000-0000-0000-0000-000000000001","counter":1.0,"hlc":"0000000000000001"}"#,
            #"{"replica":"00000000-0000-0000-0000-000000000001","counter":18446744073709551616,"hlc":"0000000000000001"}"#,
            #"{"replica":"00000000-0000-0000-0000-000000000001","counter":1,"hlc":"000000000000001"}"#,
            #"{"replica":"00000000-0000-0000-0000-000000000001","counter":1,"hlc":"000000000000000g"}"#,
            #"{"replica":"00000000-0000-0000-0000-000000000001","counter":1,"hlc":1}"#,
        ]) func malformedOrigin(_ origin: String)
    {
        #expect(throws: Refusal(.malformed, "origin")) { _ = try Self.deletion(origin: origin) }
    }

    @Test("an origin is taken in either case, and null is none") func soundOrigin() throws {
        let origin = #"{"hlc":"00000000000000Ff","counter":12,"replica":"ABCDEF00-0000-0000-0000-000000000001","more":[]}"#
        #expect(
            try Self.deletion(origin: origin).origin
                == Origin(replica: .init(high: 0xABCD_EF00_0000_0000, low: 1), counter: 12, hlc: HLC(rawValue: 255)))
        #expect(try Self.deletion(origin: "null").origin == nil)
    }

    @Test("the log of a refused line is told once type, conversation and author are known") func logOfRefused() throws {
        var decoder = EventLineDecoder()
        let id = "00000000-0000-0000-0000-000000000001"
        func log(_ line: String) -> LogID? {
            do throws(Refusal) { _ = try decoder.decode(Array(line.utf8)) } catch {}
            return decoder.log
        }
        #expect(log(#"{"type":"message.sent","conversation_id":"\#(id)","author":"ann"}"#) == .conversation(.init(high: 0, low: 1)))
        #expect(log(#"{"type":"preference.set","conversation_id":"\#(id)","author":"ann"}"#) == .user(UserID("ann")!))
        #expect(log(#"{"type":"message.sent","conversation_id":"\#(id)"}"#) == nil)
        #expect(log("{") == nil)
    }

    static func deletion(origin: String) throws -> EventLine {
        let id = "00000000-0000-0000-0000-000000000001"
        let line =
            #"{"type":"message.deleted","conversation_id":"\#(id)","author":"a","at":"2024-01-01T00:00:00Z","message_id":"\#(id)","origin":\#(origin)}"#
        var decoder = EventLineDecoder()
        return try decoder.decode(Array(line.utf8))
    }
}
