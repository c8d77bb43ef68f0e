import Foundation
import Testing

@Suite("convstore import") struct ImportTests {
    private let folder: Folder
    private let store: String

    init() throws {
        folder = try Folder()
        store = folder["store"]
    }

    @Test("The summary has just the contract's fields")
    func summary() throws {
        let file = try folder.write("events.jsonl", Lines.created(1) + Lines.sent(1, message: 2, "hi"))
        let summary = try Program.run("import", "--store", store, "--json", file).object()
        #expect(Set(summary.keys) == ["accepted", "duplicates", "rejected", "conversations", "messages", "by_code", "seconds"])
        #expect(summary["accepted"] as? Int == 2)
        #expect(summary["conversations"] as? Int == 1)
        #expect(summary["messages"] as? Int == 1)
    }

    @Test("I3: importing the same file again changes nothing", arguments: ["events", "dialogue", "stream"])
    func again(format: String) throws {
        let file =
            switch format {
            case "events": Lines.fixtures + "/events/seed-1.jsonl.zst"
            case "dialogue": Lines.fixtures + "/dialogue/llm-trials-a.jsonl.zst"
            default: Lines.fixtures + "/streams/pydantic-ai/anthropic/test_anthropic_code_execution_tool_stream.sse"
            }
        let first = try Program.run("import", "--store", store, "--format", format, "--keep-going", "--json", file).object()
        let before = try Program.run("export", "--store", store).output
        let second = try Program.run("import", "--store", store, "--format", format, "--keep-going", "--json", file).object()
        #expect(second["accepted"] as? Int == 0)
        #expect(second["rejected"] as? Int == first["rejected"] as? Int)
        #expect(try Program.run("export", "--store", store).output == before)
    }

    @Test("Without --keep-going it stops at the first refused line and keeps just what stands before it")
    func stops() throws {
        let text = Lines.created(1) + Lines.sent(1, message: 2, "kept") + Lines.sent(3, message: 4, "refused") + Lines.sent(1, message: 5, "behind")
        let file = try folder.write("events.jsonl", text)
        let outcome = try Program.run("import", "--store", store, "--json", "--rejects", folder["rejects"], file)
        #expect(outcome.status == 65)
        #expect(outcome.errors.contains("\(file): line 3: unknown_conversation"))
        #expect(try outcome.object()["accepted"] as? Int == 2)
        #expect(try folder.text("rejects") == #"{"file":"\#(file)","line":3,"code":"unknown_conversation","detail":""}"# + "\n")
        let export = try Program.run("export", "--store", store)
        #expect(export.lines.count == 2)
    }

    @Test("With --keep-going all refused lines are listed by their physical numbers, and the exit is 0")
    func keepsGoing() throws {
        let text = "\n" + Lines.created(1) + "no json\n\n" + Lines.sent(3, message: 4, "refused") + Lines.sent(1, message: 5, "behind")
        let outcome = try Program.run(
            "import", "--store", store, "--json", "--keep-going", "--rejects", folder["rejects"], "--acks", folder["acks"], "-", input: text)
        #expect(outcome.status == 0)
        #expect(try outcome.object()["by_code"] as? [String: Int] == ["malformed": 1, "unknown_conversation": 1])
        let rejects = try folder.text("rejects").split(separator: "\n")
        #expect(
            rejects == [
                #"{"file":"-","line":3,"code":"malformed","detail":"JSON"}"#, #"{"file":"-","line":5,"code":"unknown_conversation","detail":""}"#,
            ])
        let acks = try folder.text("acks").split(separator: "\n")
        #expect(
            acks == [
                #"{"line":2,"outcome":"accepted","seq":1,"position":1}"#, #"{"line":6,"outcome":"accepted","seq":2,"position":2}"#,
            ])
    }

    @Test("Refusals are those of the model", arguments: ["seed-1", "seed-2", "seed-3"])
    func model(name: String) throws {
        try Program.run(
            "import", "--store", store, "--keep-going", "--rejects", folder["rejects"], Lines.fixtures + "/events/\(name).jsonl.zst")
        func pairs(_ text: String) throws -> [String] {
            try text.split(separator: "\n").compactMap { line in
                let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
                guard let code = object["code"] as? String, let line = object["line"] as? Int else { return nil }
                return "\(line) \(code)"
            }
        }
        let expected = try String(contentsOfFile: Lines.fixtures + "/events/\(name).expected.jsonl", encoding: .utf8)
        #expect(try pairs(folder.text("rejects")) == pairs(expected))
    }

    @Test("What was exported can be imported: the same events come out", arguments: [false, true])
    func roundTrip(isExact: Bool) throws {
        let exact = isExact ? ["--exact"] : []
        try Program.run("import", "--store", store, "--keep-going", Lines.fixtures + "/events/seed-2.jsonl.zst")
        let first = try Program.run(["export", "--store", store] + exact).output
        let file = try folder.write("export.jsonl", first)
        let copy = folder["copy"]
        #expect(try Program.run(["import", "--store", copy, "--json"] + exact + [file]).status == 0)
        let second = try Program.run(["export", "--store", copy] + exact).output
        if isExact {
            #expect(second == first)
            let heads = try Program.run("audit", "head", "--store", store, "--json").lines.sorted()
            #expect(try Program.run("audit", "head", "--store", copy, "--json").lines.sorted() == heads)
        } else {
            func bare(_ text: String) -> String { text.replacing(/"hlc":"[0-9a-f]*","origin"/, with: "\"origin\"") }
            #expect(bare(second) == bare(first))
        }
    }

    @Test("A recorded stream's text and end are those that its index tells")
    func streams() throws {
        let index = try String(contentsOfFile: Lines.fixtures + "/streams/index.jsonl", encoding: .utf8)
        for line in index.split(separator: "\n") {
            let entry = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            guard let file = entry["file"] as? String, let text = entry["text"] as? String, let wire = entry["wire"] as? String,
                ["openai-chat", "openai-responses", "anthropic", "gemini"].contains(wire)
            else { continue }
            let store = folder[UUID().uuidString]
            let path = Lines.fixtures + "/" + file
            #expect(try Program.run("import", "--store", store, "--format", "stream", path).status == 0, "\(file)")
            let events = try Program.run("export", "--store", store).objects()
            let joined = events.filter { $0["type"] as? String == "chunk.appended" }.compactMap { $0["text"] as? String }.joined()
            #expect(Array(joined.utf8) == Array(text.utf8), "\(file)")
            #expect(events.first?["title"] as? String == file.split(separator: "/").last.map(String.init))
        }
    }

    @Test("A file that is no recorded stream is exit 65, and nothing of it is stored")
    func noStream() throws {
        let file = try folder.write("x.sse", "data: {\"hello\":1}\n\n")
        let rejects = folder["rejects"]
        let outcome = try Program.run("import", "--store", store, "--format", "stream", "--json", "--rejects", rejects, file)
        #expect(outcome.status == 65 && outcome.errors.contains(file))
        #expect(try outcome.object()["by_code"] as? [String: Int] == ["malformed": 1] && outcome.object()["rejected"] as? Int == 1)
        #expect(try folder.text("rejects") == #"{"file":"\#(file)","line":1,"code":"malformed","detail":"no known wire"}"# + "\n")
        #expect(!FileManager.default.fileExists(atPath: store))
    }

    @Test("An import that can keep nothing leaves no store behind", arguments: ["events", "dialogue", "stream", "exact", "rejects"])
    func nothing(kind: String) throws {
        let file = try folder.write("x", "{}\n" + Lines.created(1))
        let options =
            switch kind {
            case "exact": ["--exact"]
            case "rejects": ["--rejects", folder["no/such/place"]]
            default: ["--format", kind]
            }
        let outcome = try Program.run(["import", "--store", store, "--json", file] + options)
        #expect(outcome.status == (kind == "rejects" ? 73 : 65))
        #expect(!FileManager.default.fileExists(atPath: store))
    }

    @Test("What `export --exact` did not write is exit 65, with the file's name; what stands before it is kept")
    func notExact() throws {
        let source = folder["source"]
        try Program.run("import", "--store", source, try folder.write("e", Lines.created(1) + Lines.sent(1, message: 2, "one")))
        let exact = try Program.run("export", "--store", source, "--exact").output
        let file = try folder.write("exact", exact.replacing("\"seq\":2,", with: "\"seq\":9,"))
        let outcome = try Program.run("import", "--store", store, "--exact", "--json", file)
        #expect(outcome.status == 65)
        #expect(outcome.errors.contains("\(file): line 2: "))
        #expect(try outcome.object()["accepted"] as? Int == 1)
    }

    @Test("A plain export given to `import --exact` is exit 65, naming line and what lacks: its logs would get other heads")
    func plainAsExact() throws {
        let source = folder["source"]
        try Program.run("import", "--store", source, try folder.write("e", Lines.created(1) + Lines.sent(1, message: 2, "one") + Lines.created(3)))
        let plain = try folder.write("plain", try Program.run("export", "--store", source).output)
        let outcome = try Program.run("import", "--store", store, "--exact", plain)
        #expect(outcome.status == 65)
        #expect(outcome.errors.contains("\(plain): line 1: malformed (secret)") && outcome.errors.contains("import that without --exact"))
        #expect(!FileManager.default.fileExists(atPath: store))
        // One log of several: what stands before it is kept.
        let lines = try Program.run("export", "--store", source, "--exact").lines
        let mixed = try folder.write("mixed", lines[..<2].joined(separator: "\n") + "\n" + lines[2].replacing(/,"secret":"[^"]*"/, with: ""))
        let second = try Program.run("import", "--store", store, "--exact", "--json", mixed)
        #expect(second.status == 65 && second.errors.contains("line 3: malformed (secret)"))
        #expect(try second.object()["accepted"] as? Int == 2)
    }

    @Test("An event of a kind unknown here is replayed, as `export --exact` writes it")
    func unknownKind() throws {
        let source = folder["source"]
        try Program.run("import", "--store", source, try folder.write("e", Lines.created(1) + Lines.sent(1, message: 2, "one")))
        var lines = try Program.run("export", "--store", source, "--exact").lines
        let last = try #require(try JSONSerialization.jsonObject(with: Data(lines[1].utf8)) as? [String: Any])
        let kept = last.filter { ["conversation_id", "author", "at", "seq", "position", "hlc", "origin"].contains($0.key) }
        let event = kept.merging(["type": "unknown", "kind": 77, "bytes": "CgNhYmM="]) { $1 }
        lines[1] = String(decoding: try JSONSerialization.data(withJSONObject: event), as: UTF8.self)[...]
        try Program.run("import", "--store", store, "--exact", try folder.write("exact", lines.joined(separator: "\n")))
        let replayed = try Program.run("replay", "--store", store, "--json").lines
        #expect(replayed.count == 2 && replayed[1].hasPrefix(#"{"type":"unknown","conversation_id":""#))
        #expect(replayed[1].contains(#""kind":77,"bytes":"CgNhYmM=""#))
        // A line that cannot be read again without the rest is not exported, and that is said.
        let export = try Program.run("export", "--store", store)
        #expect(export.lines.count == 1 && export.errors.contains("1 events are of kinds"))
    }

    @Test("A line of a dialogue is refused once, be it for its conversation and for what is said in it")
    func refusedOnce() throws {
        func row(_ conv: String, _ turn: Int, _ author: String) -> String {
            #"{"conv":"\#(conv)","turn":\#(turn),"speaker":"\#(author)","text":"t"}"# + "\n"
        }
        let file = try folder.write("d.jsonl", row("a", 1, "ann") + row("b", 1, "bob") + row("a", 2, "eve"))
        let outcome = try Program.run(
            "import", "--store", store, "--format", "dialogue", "--keep-going", "--json", "--rejects", folder["rejects"], file)
        #expect(try outcome.object()["rejected"] as? Int == 1)
        #expect(try outcome.object()["by_code"] as? [String: Int] == ["conversation_conflict": 1])
        #expect(try folder.text("rejects") == #"{"file":"\#(file)","line":3,"code":"conversation_conflict","detail":""}"# + "\n")
        // Wherever a batch ends.
        let many = (0..<2046).map { row("c", $0 + 1, "ann") }.joined()
        let long = try folder.write("l.jsonl", row("b", 1, "bob") + many + row("b", 2, "eve"))
        for skipped in 0..<3 {
            let store = folder["store-\(skipped)"]
            let text = try folder.text("l.jsonl").split(separator: "\n", omittingEmptySubsequences: false)
            let file = try folder.write("l\(skipped).jsonl", (text[..<1] + text[(1 + skipped)...]).joined(separator: "\n"))
            let outcome = try Program.run("import", "--store", store, "--format", "dialogue", "--keep-going", "--json", file)
            #expect(try outcome.object()["rejected"] as? Int == 1)
        }
        #expect(try Program.run("import", "--store", folder["s"], "--format", "dialogue", "--keep-going", "--json", long).object()["rejected"] as? Int == 1)
    }

    @Test("I3: a recorded stream is the same file whether it is compressed or not")
    func compressedStream() throws {
        let text = #"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"# + "\n"
        let file = try folder.write("answer.txt", text)
        // A frame of one raw block (RFC 8878, 3.1.1): its size, and then its header, the last's, in three bytes.
        let header = withUnsafeBytes(of: UInt32(text.utf8.count << 3 | 1).littleEndian) { Array($0.prefix(3)) }
        try Data([0x28, 0xB5, 0x2F, 0xFD, 0x20, UInt8(text.utf8.count)] + header + text.utf8).write(to: URL(filePath: file + ".zst"))
        try Program.run("import", "--store", store, "--format", "stream", file)
        let second = try Program.run("import", "--store", store, "--format", "stream", "--json", file + ".zst")
        #expect(try second.status == 0 && second.object()["accepted"] as? Int == 0)
    }

    @Test("A log copied with the last clock there is goes on")
    func lastClock() throws {
        let source = folder["source"]
        try Program.run("import", "--store", source, try folder.write("e", Lines.created(1)))
        let exact = try Program.run("export", "--store", source, "--exact").output
        let file = try folder.write("exact", exact.replacing(/"hlc":"[0-9a-f]*","origin"/, with: "\"hlc\":\"ffffffffffffffff\",\"origin\""))
        #expect(try Program.run("import", "--store", store, "--exact", file).status == 0)
        #expect(try Program.run("import", "--store", store, try folder.write("more", Lines.sent(1, message: 2, "more"))).status == 0)
        #expect(try Program.run("verify", "--store", store).status == 0)
    }

    @Test("A file that is read is not written over", arguments: ["--rejects", "--acks"])
    func overwriting(option: String) throws {
        let file = try folder.write("events.jsonl", Lines.created(1))
        #expect(try Program.run("import", "--store", store, option, folder.path + "/./events.jsonl", file).status == 64)
        #expect(try folder.text("events.jsonl") == Lines.created(1))
    }

    @Test("No file in the store's directory is written over, whatever leads there; nor have --rejects and --acks one file")
    func intoTheStore() throws {
        let file = try folder.write("events.jsonl", Lines.created(1) + Lines.sent(1, message: 2, "one"))
        #expect(try Program.run("import", "--store", store, file).status == 0)
        let manager = FileManager.default
        try manager.createSymbolicLink(atPath: folder["to-archive"], withDestinationPath: "store/archive")
        try manager.createSymbolicLink(atPath: folder["to-nothing"], withDestinationPath: "to-store/new")
        try manager.createSymbolicLink(atPath: folder["to-store"], withDestinationPath: store)
        try manager.linkItem(atPath: store + "/archive", toPath: folder["hard"])
        let archive = try Data(contentsOf: URL(fileURLWithPath: store + "/archive"))
        let paths = [
            store + "/archive", store + "/../store/new", folder["to-archive"], folder["to-nothing"], folder["to-store/./key"], folder["hard"], store + "/",
        ]
        for path in paths {
            for arguments in [["import", "--rejects", path, file], ["import", "--acks", path, file], ["audit", "checkpoint", "--output", path]] {
                let outcome = try Program.run(arguments + ["--store", store])
                #expect(outcome.status == 64 && outcome.errors.contains("lies in the store"), "\(path): \(outcome.errors)")
            }
        }
        let proof = ["audit", "prove", "--store", store, "--conversation", "0", "--seq", "1", "--output"]
        #expect(try Program.run(proof + [paths[0]]).status == 64)
        #expect(try Data(contentsOf: URL(fileURLWithPath: store + "/archive")) == archive)
        #expect(try Program.run("verify", "--store", store).status == 0)
        #expect(try Program.run("import", "--store", folder["new"], "--rejects", folder["new"], file).status == 64)
        let twice = try Program.run("import", "--store", store, "--rejects", folder["x"], "--acks", folder["./x"], file)
        #expect(twice.status == 64 && !manager.fileExists(atPath: folder["x"]))
        #expect(try Program.run("import", "--store", store, "--rejects", "/dev/null", "--acks", "/dev/null", file).status == 0)
    }

    @Test("A recorded stream with a payload beyond the limit is refused by its name and line, and the next file goes on")
    func largePayload() throws {
        let delta = #"{"choices":[{"delta":{"content":"a"}}]}"# + "\n"
        let large = try folder.write("large", "\n" + delta + "{\"choices\":\"" + String(repeating: "x", count: 17 << 20) + "\"}\n")
        let sound = try folder.write("sound", delta)
        let arguments = ["import", "--store", store, "--format", "stream", "--json", large, sound]
        let stopped = try Program.run(arguments)
        #expect(stopped.status == 65 && stopped.errors.contains("\(large): line 3: too_large"), "\(stopped.errors)")
        let outcome = try Program.run(arguments + ["--keep-going", "--rejects", folder["rejects"]])
        #expect(outcome.status == 0)
        #expect(try outcome.object()["by_code"] as? [String: Int] == ["too_large": 1] && outcome.object()["conversations"] as? Int == 1)
        #expect(try folder.text("rejects") == #"{"file":"\#(large)","line":3,"code":"too_large","detail":"payload"}"# + "\n")
    }

    @Test("A recorded stream's acks count physical lines; what was skipped of it is told, not in the summary's fields")
    func streamLines() throws {
        let stream = try folder.write("s.sse", "event: x\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: 7\n\ndata: [DONE]\n\n")
        let arguments = ["import", "--store", store, "--format", "stream", stream]
        let outcome = try Program.run(arguments + ["--json", "--acks", folder["acks"]])
        #expect(try Set(outcome.object().keys) == ["accepted", "duplicates", "rejected", "conversations", "messages", "by_code", "seconds"])
        #expect(outcome.errors.contains("1 payload"), "\(outcome.errors)")
        let lines = try folder.text("acks").matches(of: /"line":([0-9]+)/).map { String($0.output.1) }
        #expect(lines == ["2", "2", "2", "6"])
        #expect(try Program.run(arguments).output.contains(/skipped +1 +payloads that are no JSON objects/))
    }

    @Test("An import that a full disk ends prints what was taken so far, and exits with 74", arguments: ["--acks", "--rejects"])
    func summaryOfFailure(option: String) throws {
        let file = try folder.write("events.jsonl", Lines.created(1) + Lines.sent(1, message: 2, "one") + "no json\n")
        let outcome = try Program.run("import", "--store", store, "--json", "--keep-going", option, "/dev/full", file)
        #expect(outcome.status == 74 && outcome.errors.contains("/dev/full"), "\(outcome.errors)")
        let summary = try outcome.object()
        #expect(summary["accepted"] as? Int == 2 && summary["rejected"] as? Int == 1 && summary["messages"] as? Int == 1)
        #expect(try Program.run("import", "--store", store, "--json", "--keep-going", file).object()["duplicates"] as? Int == 2)
    }
}
