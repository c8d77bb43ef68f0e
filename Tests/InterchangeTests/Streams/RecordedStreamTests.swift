import EventLog
import Foundation
import Interchange
import Testing
import StoreTesting

@Suite("Recorded streams") struct RecordedStreamTests {
    static let wires: Set<String> = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"]

    /// The result of a stream, fed in slices of the given sizes.
    static func read(_ bytes: [UInt8], as wires: StreamWires = .files, slice: () -> Int = { .max }) throws -> (
        texts: [String], ending: RecordedStream.Ending, stream: RecordedStream
    ) {
        var detector = StreamFramingDetector()
        var cuts: [Range<Int>] = []
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start.addingReportingOverflow(slice()).overflow ? .max : start + slice())
            cuts.append(start..<end)
            start = end
        }
        for cut in cuts { Array(bytes[cut]).withUnsafeBytes { detector.feed($0) } }
        var stream = RecordedStream(framing: detector.framing, wires: wires)
        var texts: [String] = []
        for cut in cuts { try stream.feed(Array(bytes[cut])) { texts.append($0.text) } }
        let ending = try stream.finish { texts.append($0.text) }
        return (texts, ending, stream)
    }

    /// The folder of the whole recordings, where there is one: `CONVSTORE_DATA=… swift test --filter recordedFiles`.
    static var folder: URL { ProcessInfo.processInfo.environment["CONVSTORE_DATA"].map { URL(filePath: $0) } ?? Fixtures.folder }

    @Test("recorded files give the text and the end that their index tells, in any slices") func recordedFiles() throws {
        var generator = SeededGenerator(seed: 5)
        var count = 0
        for entry in try Fixtures.objects("streams/index.jsonl", in: Self.folder) {
            let name = try #require(entry["file"] as? String)
            let bytes = Array(try Data(contentsOf: Self.folder.appending(path: name)))
            guard Self.wires.contains(entry["wire"] as? String ?? "") else {
                #expect(throws: InputError.self, "\(name)") { try Self.read(bytes) }
                continue
            }
            count += 1
            let (texts, ending, stream) = try Self.read(bytes)
            let live = try Self.read(bytes, as: .live)
            #expect(live.texts == texts && live.ending == ending, "\(name), as `record` reads it")
            #expect(Array(texts.joined().utf8) == Array((entry["text"] as? String ?? "").utf8), "\(name)")
            #expect(texts.count == entry["text_deltas"] as? Int, "\(name)")
            #expect(stream.skippedPayloads == entry["unparsable"] as? Int, "\(name)")
            var isCompleted = false
            if case .completed = ending { isCompleted = true }
            #expect(isCompleted == entry["ended"] as? Bool, "\(name)")
            for most in [1, 3, 40] {
                let sliced = try Self.read(bytes) { Int.random(in: 1...most, using: &generator) }
                #expect(sliced.texts == texts && sliced.ending == ending && sliced.stream.payloads == stream.payloads, "\(name)")
            }
        }
        print("recorded streams of the four wires: \(count), all as their index tells")
        #expect(count >= 30)
    }

    @Test(
        "framing, text and ends",
        arguments: [
            // Several data lines join; one space goes; CR, LF and CRLF; a pending event is taken at the end.
            (
                "event: x\r\ndata: {\"type\":\"content_block_delta\",\rdata:\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\r\n\r\ndata: {\"type\":\"message_stop\"}",
                ["a"], "message_stop"
            ),
            (
                "{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}},{\"index\":0,\"delta\":{\"content\":\"yes\"}}]}\n[DONE]\n",
                ["yes"], "[DONE]"
            ),
            (
                "{\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"thinking\",\"text\":\"b\"},{\"type\":\"text\",\"text\":\"c\"}]}}]}",
                ["ac"], "end_of_stream"
            ),
            (
                "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"y\"}}]}\n[DONE]",
                ["x", "y"], "stop"
            ),
            // A whole answer's choice within a stream: no text, but its end mark counts.
            (
                "{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n{\"choices\":[{\"index\":0,\"message\":{\"content\":\"x\"},\"finish_reason\":\"length\"}]}",
                ["x"], "length"
            ),
            ("{\"choices\":[]}\nnot json\n[]\n{\"error\":{\"message\":\"m\"}}", [], "error"),
            (
                "{\"type\":\"response.output_text.delta\",\"delta\":\"t\"}\n{\"type\":\"error\"}\n{\"type\":\"response.failed\",\"response\":{\"error\":{}}}",
                ["t"], "response.failed"
            ),
            (
                "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"th\",\"thought\":true},{\"text\":\"a\"},{\"text\":\"b\"}]}}]}\n{\"candidates\":[{\"finishReason\":\"STOP\"}]}",
                ["ab"], "STOP"
            ),
            ("\u{FEFF}data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d\"}}]}\n\n", ["\u{FFFD}"], "end_of_stream"),
        ]) func rules(_ text: String, _ deltas: [String], _ end: String) throws
    {
        for size in [1, 2, 7, 1000] {
            let (texts, ending, _) = try Self.read(Array(text.utf8)) { size }
            #expect(texts == deltas)
            switch ending {
            case .completed(let reason), .interrupted(let reason): #expect(reason == end)
            }
        }
    }

    /// What the other wires' recordings say: of most of them the index knows no text.
    private static func words(_ entry: [String: Any], _ bytes: [UInt8]) throws -> String {
        if entry["wire"] as? String == "openai-completions" { return try #require(entry["text"] as? String) }
        var words = ""
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            let payload = try #require(try JSONSerialization.jsonObject(with: Data(line)) as? [String: Any])
            let delta = payload["delta"] as? [String: Any]
            let spoken = (payload["serverContent"] as? [String: Any])?["outputTranscription"] as? [String: Any]
            if delta?["type"] as? String == "text" { words += delta?["text"] as? String ?? "" }
            if payload["type"] as? String == "session.output_transcript.delta" { words += payload["delta"] as? String ?? "" }
            words += spoken?["text"] as? String ?? ""
        }
        return words
    }

    @Test("the wires that only `record` takes give their words and end, in any slices") func liveWires() throws {
        var generator = SeededGenerator(seed: 6)
        var seen: [String: Int] = [:]
        for entry in try Fixtures.objects("streams/index.jsonl", in: Self.folder) {
            let (name, wire) = (try #require(entry["file"] as? String), try #require(entry["wire"] as? String))
            if Self.wires.contains(wire) { continue }
            seen[wire, default: 0] += 1
            let bytes = Array(try Data(contentsOf: Self.folder.appending(path: name)))
            let (texts, ending, stream) = try Self.read(bytes, as: .live)
            #expect(texts.joined() == (try Self.words(entry, bytes)), "\(name)")
            #expect(texts.joined().isEmpty == name.contains("tool-call-step1"), "\(name)")
            #expect(stream.skippedPayloads == entry["unparsable"] as? Int, "\(name)")
            var isCompleted = false
            if case .completed = ending { isCompleted = true }
            #expect(isCompleted == entry["ended"] as? Bool, "\(name)")
            for most in [1, 40] {
                let sliced = try Self.read(bytes, as: .live) { Int.random(in: 1...most, using: &generator) }
                #expect(sliced.texts == texts && sliced.ending == ending, "\(name)")
            }
        }
        print("recorded streams of the other wires: \(seen)")
        #expect(seen.count == 4)
    }

    @Test(
        "texts and ends of the wires that only `record` takes",
        arguments: [
            (
                "{\"object\":\"text_completion\",\"choices\":[{\"index\":1,\"text\":\"no\"},{\"index\":0,\"text\":\"yes\",\"finish_reason\":\"stop\"}]}\n[DONE]",
                ["yes"],
                "stop"
            ),
            (
                "{\"event_type\":\"content.delta\",\"delta\":{\"type\":\"text\",\"text\":\"a\"}}\n{\"event_type\":\"interaction.complete\"}", ["a"],
                "interaction.complete"
            ),
            ("{\"event_type\":\"step.delta\",\"delta\":{\"type\":\"thought_summary\",\"text\":\"a\"}}", [], "end_of_stream"),
            (
                "{\"type\":\"response.created\"}\n{\"type\":\"response.output_audio_transcript.delta\",\"delta\":\"a\"}\n{\"type\":\"response.done\",\"response\":{\"status\":\"completed\"}}",
                ["a"], "completed"
            ),
            (
                "{\"type\":\"response.text.delta\",\"delta\":\"a\"}\n{\"type\":\"response.done\",\"response\":{\"status\":\"cancelled\"}}", ["a"],
                "end_of_stream"
            ),
            ("{\"type\":\"session.created\"}\n{\"type\":\"error\",\"error\":{\"message\":\"m\"}}", [], "error"),
            (
                "{\"serverContent\":{\"modelTurn\":{\"parts\":[{\"text\":\"a\"},{\"text\":\"b\",\"thought\":true}]}}}\n{\"serverContent\":{\"inputTranscription\":{\"text\":\"c\"},\"turnComplete\":true}}",
                ["a"], "turnComplete"
            ),
        ]) func liveRules(_ text: String, _ deltas: [String], _ end: String) throws
    {
        let (texts, ending, _) = try Self.read(Array(text.utf8), as: .live)
        #expect(texts == deltas)
        switch ending {
        case .completed(let reason), .interrupted(let reason): #expect(reason == end)
        }
        if !text.contains("response.") { #expect(throws: InputError.self) { try Self.read(Array(text.utf8)) } }
    }

    @Test("a delta is told as soon as its payload is whole") func live() throws {
        var stream = RecordedStream(framing: .serverSentEvents, wires: .files)
        var texts: [String] = []
        let bytes = Array("data: {\"created\":1700000000,\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n".utf8)
        try stream.feed(bytes) { texts.append($0.text) }
        #expect(texts.isEmpty)
        try stream.feed([10]) { texts.append($0.text) }
        #expect(texts == ["a"])
        #expect(stream.at == 1_700_000_000_000)
    }

    @Test("a file becomes a conversation of one streamed message") func fileToEvents() throws {
        let scratch = try Scratch()
        let text =
            "{\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"é\"}}]}\n[DONE]\n"
        let file = try InputFile.open(scratch.file("answer.chunks.txt", text.utf8))
        let digest = try file.contentDigest()
        var events: [Event] = []
        var times: [UInt64] = []
        var lines: [Int] = []
        let skipped = try StreamFile.forEachEvent(of: file, digest: digest, title: "answer.chunks.txt", now: 9) {
            events.append($0)
            times.append($1)
            lines.append($2)
        }
        #expect(skipped == 0)
        #expect(lines == [1, 1, 1, 2])
        #expect(times == Array(repeating: 1_700_000_000_000, count: 4))
        let (assistant, user) = (UserID("assistant")!, UserID("user")!)
        let message: MessageID = digest.identifier()
        #expect(
            events.map(\.content) == [
                .conversationCreated(kind: .assistant, title: "answer.chunks.txt", participants: [assistant, user]),
                .messageSent(.init(id: message, role: .assistant, text: "", isStreaming: true)),
                .chunkAppended(message: message, index: 0, text: "é"),
                .messageCompleted(message: message, finishReason: "[DONE]", usage: nil),
            ])
        #expect(events.allSatisfy { $0.author == assistant && $0.conversation == digest.identifier() })
        let other = try InputFile.open(scratch.file("other", "{\"type\":\"session.created\"}\n".utf8))
        #expect { try StreamFile.forEachEvent(of: other, digest: digest, title: "", now: 9) { _, _, _ in } } throws: {
            ($0 as? InputError)?.code == .noKnownWire
        }
    }

    @Test(
        "a delta names the physical line that its payload begins on",
        arguments: [
            (
                ": hi\r\n\r\ndata: {\"choices\":[{\"delta\":\ndata: {\"content\":\"a\"}}]}\n\n\nid: 7\rdata:{\"choices\":[{\"delta\":{\"content\":\"b\"}}]}",
                [3, 8], 8
            ),
            (
                "\n{\"error\":1}\n\r\n{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r{\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n[DONE]\n",
                [4, 5], 6
            ),
        ]) func lines(_ text: String, _ expected: [Int], _ last: Int) throws
    {
        for size in [1, 2, 1000] {
            var stream = RecordedStream(framing: text.contains("data:") ? .serverSentEvents : .lines, wires: .files)
            var lines: [Int] = []
            let bytes = Array(text.utf8)
            for start in stride(from: 0, to: bytes.count, by: size) {
                try stream.feed(Array(bytes[start..<min(start + size, bytes.count)])) { lines.append($0.line) }
            }
            _ = try stream.finish { lines.append($0.line) }
            #expect(lines == expected && stream.firstLine == expected[0] && stream.lastLine == last)
        }
    }
}
