import EventLog
import Foundation
import Interchange
import Testing

@Suite("Event lines beside the model") struct ModelParsingTests {
    @Test("hand-made hostile lines are read or refused as fold.py does") func hostileLines() throws {
        var decoder = EventLineDecoder()
        let cases = try Fixtures.objects("events/hostile.jsonl")
        #expect(cases.count > 1000)
        for expected in cases {
            let line = try bytes(of: expected)
            let outcome = decode(line, &decoder)
            let comment = Comment(rawValue: String(decoding: line.prefix(300), as: UTF8.self))
            switch outcome {
            case .failure(let refusal):
                #expect(refusal.code.rawValue == expected["code"] as? String, comment)
                #expect(refusal.detail == expected["detail"] as? String, comment)
            case .success(let line):
                #expect(expected["code"] is NSNull, comment)
                if expected["type"] != nil { try compare(line, expected, comment) }
            }
        }
    }

    @Test("generated files give the model's refusals, line by line", arguments: 1...3) func generatedFiles(_ seed: Int) throws {
        var refused: [Int: [String: Any]] = [:]
        for verdict in try Fixtures.objects("events/seed-\(seed).parse.jsonl") { refused[try #require(verdict["line"] as? Int)] = verdict }
        var lines = try LineReader(InputFile.open(Fixtures.path("events/seed-\(seed).jsonl.zst")))
        var decoder = EventLineDecoder()
        var count = 0
        while try lines.advance() {
            count += 1
            let verdict = refused.removeValue(forKey: lines.number)
            let line = lines.withLine { Array($0) }
            switch decode(line, &decoder) {
            case .success: #expect(verdict == nil, "line \(lines.number)")
            case .failure(let refusal):
                #expect(refusal.code.rawValue == verdict?["code"] as? String, "line \(lines.number)")
                #expect(refusal.detail == verdict?["detail"] as? String, "line \(lines.number)")
            }
        }
        #expect(count == 3000)
        #expect(refused.isEmpty)
    }

    private func decode(_ line: [UInt8], _ decoder: inout EventLineDecoder) -> Result<EventLine, Refusal> {
        do throws(Refusal) { return .success(try decoder.decode(line)) } catch { return .failure(error) }
    }

    private func bytes(of expected: [String: Any]) throws -> [UInt8] {
        func part(_ name: String) throws -> [UInt8] {
            let text = try #require(expected[name] as? String)
            return Array(try #require(Data(base64Encoded: text)))
        }
        if expected["base64"] != nil { return try part("base64") }
        let unit = try part("unit")
        var line = try part("head")
        for _ in 0..<(try #require(expected["count"] as? Int)) { line += unit }
        return line + (try part("tail"))
    }

    private func compare(_ line: EventLine, _ expected: [String: Any], _ comment: Comment) throws {
        #expect(line.at == (expected["at"] as? NSNumber)?.uint64Value, comment)
        same(line.event.author.string, expected["author"], comment)
        #expect(line.event.content.kind?.name.description == expected["type"] as? String, comment)
        let parsed = expected["parsed"] as? [String: Any] ?? [:]
        switch line.event.content {
        case .conversationCreated(_, let title, let participants):
            same(title, expected["title"], comment)
            #expect(participants.map(\.string) == expected["participants"] as? [String], comment)
        case .messageSent(let message):
            same(message.id.description, parsed["message"], comment)
            same(message.text, parsed["text"], comment)
            same(message.parts, parsed["parts"], comment)
            same(message.replyTo?.description, parsed["reply_to"], comment)
            #expect(message.isStreaming == parsed["streaming"] as? Bool, comment)
        case .conversationUpdated(let title, let attributes):
            same(title, parsed["title"], comment)
            let expected = try #require(parsed["attributes"] as? [String: Any])
            #expect(attributes.count >= expected.count, comment)
        case .chunkAppended(_, let index, let text):
            #expect(index == (parsed["index"] as? NSNumber)?.uint32Value, comment)
            same(text, parsed["text"], comment)
        case .messageCompleted(_, let reason, _): same(reason, parsed["finish_reason"], comment)
        case .reactionSet(_, let emoji, let isOn):
            same(emoji, parsed["emoji"], comment)
            #expect(isOn == parsed["on"] as? Bool, comment)
        case .preferenceSet(let key, let value):
            same(key, parsed["key"], comment)
            same(value, parsed["value"], comment)
        case .custom(_, let payload): same(payload.map { String(format: "%02x", $0) }.joined(), parsed["payload"], comment)
        case .receiptRead(let upTo): same(upTo.description, parsed["up_to"], comment)
        default: break
        }
    }

    /// Compares bytes, as Swift's `==` would take two spellings of a letter for one.
    private func same(_ value: String?, _ expected: Any?, _ comment: Comment) {
        #expect(value.map { Array($0.utf8) } == (expected as? String).map { Array($0.utf8) }, comment)
    }
}
