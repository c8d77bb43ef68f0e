import Foundation
import Testing

@Suite("convstore record") struct RecordTests {
    private let folder: Folder
    private let store: String
    private let chat: String

    init() throws {
        folder = try Folder()
        store = folder["store"]
        chat = try Program.run("new", "--store", store, "--author", "bot", "--kind", "assistant").output.trimmingCharacters(in: .newlines)
    }

    private func record(_ arguments: String..., input: Pipe) throws -> (Process, FileHandle, FileHandle, Folder) {
        try Program.start(["record", "--store", store, chat, "--author", "bot"] + arguments, input: input)
    }

    private func rows() throws -> [[String: Any]] { try Program.run("timeline", "--store", store, chat, "--limit", "9999", "--json").objects() }

    @Test("Every recorded stream gives the text and end that import gives, in however many pieces it comes")
    func fixtures() throws {
        let index = try String(contentsOfFile: Lines.fixtures + "/streams/index.jsonl", encoding: .utf8)
        var count = 0
        for line in index.split(separator: "\n") {
            let entry = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            guard let file = entry["file"] as? String else { continue }
            let path = Lines.fixtures + "/" + file
            let imported = folder[UUID().uuidString]
            let status = try Program.run("import", "--store", imported, "--format", "stream", path).status
            let isFile = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"].contains(entry["wire"] as? String)
            #expect(status == (isFile ? 0 : 65), "\(file)")
            let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
            let input = Pipe()
            let (process, _, _, files) = try record("--json", input: input)
            var rest = bytes[...]
            // Pieces that cut lines and characters; a slow reader of the pipe joins some of them.
            while !rest.isEmpty {
                let piece = rest.prefix(count % 2 == 0 ? 1000 : 77)
                try input.fileHandleForWriting.write(contentsOf: piece)
                rest = rest.dropFirst(piece.count)
            }
            try input.fileHandleForWriting.close()
            process.waitUntilExit()
            #expect(process.terminationStatus == 0, "\(file)")
            // Of the wires that only `record` takes RecordedStreamTests tells the words.
            guard isFile else { continue }
            let answer = try Program.Outcome(status: 0, output: files.text("output"), errors: "").object()
            let events = try Program.run("export", "--store", imported).objects()
            let end = try #require(events.last)
            let row = try #require(try rows().last)
            let joined = events.filter { $0["type"] as? String == "chunk.appended" }.compactMap { $0["text"] as? String }
            #expect(Array((row["text"] as? String ?? "?").utf8) == Array(joined.joined().utf8), "\(file)")
            #expect(row["chunks"] as? Int == joined.count, "\(file)")
            #expect(row["message_id"] as? String == answer["message_id"] as? String)
            #expect(answer["state"] as? String == (end["type"] as? String == "message.completed" ? "complete" : "interrupted"), "\(file)")
            #expect(row["finish_reason"] as? String == end["finish_reason"] as? String, "\(file)")
            #expect(row["interrupted_reason"] as? String == end["reason"] as? String, "\(file)")
            count += 1
        }
        #expect(count > 10)
    }

    private static func delta(_ text: String) -> String {
        #"data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"\#(text)"}}]}"# + "\n\n"
    }

    @Test("Each delta is stored and typed as it comes, harmless; SIGINT ends the message with what it had")
    func live() throws {
        let input = Pipe()
        let (process, _, _, files) = try record(input: input)
        try input.fileHandleForWriting.write(contentsOf: Data((": comment\n\n" + Self.delta(#"Hello\u001b[31m"#)).utf8))
        #expect(Program.eventually { try files.text("output") == "Hello^[[31m" })
        // Another process sees it while it is under way.
        #expect(try rows().map { $0["state"] as? String } == ["streaming"])
        #expect(try rows()[0]["text"] as? String == "Hello\u{1B}[31m")
        #expect(try Program.run("send", "--store", store, chat, "x", "--author", "bot").status == 75)
        try input.fileHandleForWriting.write(contentsOf: Data(Self.delta(" world").utf8))
        #expect(Program.eventually { try files.text("output") == "Hello^[[31m world" })
        #expect(Program.interrupt(process) == 0)
        let row = try #require(try rows().first)
        #expect(row["state"] as? String == "interrupted")
        #expect(row["interrupted_reason"] as? String == "sigint")
        #expect(row["text"] as? String == "Hello\u{1B}[31m world")
        #expect(row["chunks"] as? Int == 2)
        #expect(try files.text("output") == "Hello^[[31m world\n")
        #expect(try Program.run("verify", "--store", store, "--projections").status == 0)
    }

    @Test("Tabs, line ends, and pictures and words whose joiner begins a delta are typed as a chat shows them")
    func typed() throws {
        let deltas = [#"\tif x {\r\n"#, "👨", #"\u200d👩"#, " می", #"\u200cخواهم"#, #"\u200b"#, #"a\r"#, #"\nb\r"#, "c", #"\r\n"#]
        let input = deltas.map(Self.delta).joined()
        let outcome = try Program.run("record", "--store", store, chat, "--author", "bot", input: input)
        #expect(outcome.output == "    if x {\n👨\u{200D}👩 می\u{200C}خواهم\\u{200B}a\nb^Mc\n")
    }

    @Test("Who stops reading the text does not stop the recording")
    func readerGoes() throws {
        let text = String(repeating: "word ", count: 4000)
        let file = try folder.write("stream.sse", (Self.delta("first") + Self.delta(text) + Self.delta("last") + "data: [DONE]\n\n"))
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = [
            "-c", "(sleep 0.3; cat \"$3\"; sleep 0.3; cat \"$3\") | \"$0\" record --store \"$1\" \"$2\" --author bot 2>/dev/null | true", Program.path, store,
            chat, file,
        ]
        try process.run()
        process.waitUntilExit()
        #expect(Program.eventually { try rows().first?["state"] as? String == "complete" })
        #expect(try rows().first?["text"] as? String == "first\(text)lastfirst\(text)last")
    }

    @Test("Who does not read the text holds nothing up: all is stored, SIGINT ends it, and who reads at last gets the text", arguments: [true, false])
    func readerWaits(_ isInterrupted: Bool) throws {
        let input = Pipe()
        let (process, output) = try Program.startUnread(["record", "--store", store, chat, "--author", "bot"], input: input)
        let word = String(repeating: "word ", count: 200)
        for _ in 0..<300 { try input.fileHandleForWriting.write(contentsOf: Data(Self.delta(word).utf8)) }
        #expect(Program.eventually { try (rows().first?["text"] as? String)?.utf8.count == 300_000 })
        if isInterrupted {
            #expect(Program.interrupt(process) == 0)
        } else {
            try input.fileHandleForWriting.write(contentsOf: Data("data: [DONE]\n\n".utf8))
            try input.fileHandleForWriting.close()
            #expect(Program.eventually { try rows().first?["state"] as? String == "complete" })
            // The store is free while the reader takes its time.
            #expect(Program.eventually { try Program.run("send", "--store", store, chat, "x", "--author", "bot").status == 0 })
            #expect(process.isRunning)
            #expect(try output.fileHandleForReading.readToEnd().map { String(decoding: $0, as: UTF8.self) } == String(repeating: word, count: 300) + "\n")
            process.waitUntilExit()
            #expect(process.terminationStatus == 0)
        }
        let row = try #require(try rows().first)
        #expect(row["interrupted_reason"] as? String == (isInterrupted ? "sigint" : nil))
        #expect(row["chunks"] as? Int == 300)
        #expect(try Program.run("verify", "--store", store, "--projections").status == 0)
    }

    @Test("A delta that is larger than a chunk may be is stored in several, cut between characters") func largeDelta() throws {
        let text = "a" + String(repeating: "é", count: 1_200_000)
        let outcome = try Program.run("record", "--store", store, chat, "--author", "bot", "--json", input: Self.delta(text) + "data: [DONE]\n\n")
        #expect(outcome.status == 0)
        #expect(try outcome.object()["chunks"] as? Int == 3)
        #expect(try rows().first?["text"] as? String == text)
    }

    @Test("Input without an end mark is end_of_stream, with an error payload error; the answer has just its fields")
    func ends() throws {
        let ended = try Program.run("record", "--store", store, chat, "--author", "bot", "--json", input: Self.delta("a")).object()
        #expect(
            Set(ended.keys) == [
                "conversation_id", "message_id", "seq", "position", "state", "finish_reason", "interrupted_reason", "chunks", "skipped",
            ])
        #expect(ended["interrupted_reason"] as? String == "end_of_stream")
        #expect(ended["seq"] as? Int == 2)
        let failed = Self.delta("a") + #"data: {"error":{"message":"overloaded"}}"# + "\n\n"
        let error = try Program.run("record", "--store", store, chat, "--author", "bot", "--json", input: failed).object()
        #expect(error["interrupted_reason"] as? String == "error")
        let done = try Program.run("record", "--store", store, chat, "--author", "bot", "--json", input: Self.delta("a") + "data: [DONE]\n\n").object()
        #expect(done["finish_reason"] as? String == "[DONE]")
    }

    @Test("When nothing of a known stream comes, the exit is 65 and nothing is stored", arguments: ["", "data: {}\n\n", "no json\n", "{\"a\":1}\n"])
    func unknown(input: String) throws {
        let before = try Program.run("export", "--store", store).output
        let outcome = try Program.run("record", "--store", store, chat, "--author", "bot", "--json", input: input)
        #expect(outcome.status == 65)
        #expect(outcome.output.isEmpty)
        #expect(try Program.run("export", "--store", store).output == before)
    }

    @Test(
        "A provider's refusal is told in its words, and a whole answer is no stream",
        arguments: [
            ("{\"error\":{\"message\":\"no such key\",\"code\":1}}\n", "no such key"),
            ("{\n  \"error\": {\n    \"message\": \"no such key\"\n  }\n}\n", "no such key"),
            ("{\"error\":\"no such model\"}\n", "no such model"),
            ("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"x\",\"message\":\"over\\u001b[31mloaded\"}}\n\n", "over"),
            ("{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"all\"},\"finish_reason\":\"stop\"}]}\n", "not a stream"),
        ])
    func complaints(input: String, words: String) throws {
        let before = try Program.run("export", "--store", store).output
        let outcome = try Program.run("record", "--store", store, chat, "--author", "bot", input: input)
        #expect(outcome.status == 65)
        #expect(outcome.errors.contains(words))
        #expect(!outcome.errors.contains("\u{1B}"))
        #expect(try Program.run("export", "--store", store).output == before)
    }

    @Test("A stream that cannot be kept is refused: unknown conversation 66, no participant 65")
    func refused() throws {
        #expect(try Program.run("record", "--store", store, "ffff", "--author", "bot", input: Self.delta("a")).status == 66)
        let outcome = try Program.run("record", "--store", store, chat, "--author", "eve", input: Self.delta("a"))
        #expect(outcome.status == 65)
        #expect(outcome.errors.contains("not_participant"))
    }
}
