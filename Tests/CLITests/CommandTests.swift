import Foundation
import Testing

@Suite("convstore") struct CommandTests {
    private let folder: Folder
    private let store: String

    init() throws {
        folder = try Folder()
        store = folder["store"]
    }

    private func fill(_ text: String) throws {
        let file = try folder.write("events.jsonl", text)
        try #require(try Program.run("import", "--store", store, file).status == 0)
    }

    @Test("Exit codes follow sysexits")
    func exitCodes() throws {
        let file = try folder.write("file", "x")
        #expect(try Program.run("--version").status == 0)
        #expect(try Program.run("import").status == 64)
        #expect(try Program.run("stats", "--store", store, "--nonsense").status == 64)
        #expect(try Program.run("stats", "--store", store).status == 66)
        #expect(try Program.run("stats", "--store", file).status == 66)
        #expect(try Program.run("import", "--store", store, folder["absent"]).status == 66)
        #expect(!FileManager.default.fileExists(atPath: store))
        #expect(try Program.run("import", "--store", folder["no/such/place"], file).status == 73)
        #expect(try Program.run("import", "--store", "", file).status == 64)
        #expect(try Program.run("export", "--salvage", "--store", store).status == 66)
        #expect(try Program.run("export", "--salvage", "--store", file).status == 66)
    }

    @Test("Errors are one line that says what and where, without a user's control characters")
    func errors() throws {
        let outcome = try Program.run("stats", "--store", folder["\u{1B}[31m\u{7}"])
        #expect(outcome.errors.hasPrefix("convstore: "))
        #expect(outcome.errors.contains("^[[31m^G"))
        #expect(outcome.output.isEmpty)
    }

    @Test("A second writer is refused with 75 and the first one's process id; readers work beside it")
    func busy() throws {
        try fill(Lines.created(1))
        // An import opens the store before it waits for its input.
        let input = Pipe()
        let (writer, _, _, kept) = try Program.start(["import", "--store", store, "-"], input: input)
        defer {
            try? input.fileHandleForWriting.close()
            writer.waitUntilExit()
            withExtendedLifetime(kept) {}
        }
        let owner = "\(writer.processIdentifier)\n"
        #expect(Program.eventually { try String(contentsOfFile: store + "/lock", encoding: .utf8) == owner })
        let outcome = try Program.run("import", "--store", store, folder["events.jsonl"])
        #expect(outcome.status == 75)
        #expect(outcome.errors.contains("process \(writer.processIdentifier)"))
        #expect(try Program.run("export", "--store", store).lines.count == 1)
    }

    @Test("JSON objects have just the contract's fields")
    func fields() throws {
        try fill(Lines.created(1) + Lines.sent(1, message: 2, "hi"))
        let stats = try Program.run("stats", "--store", store, "--json").object()
        #expect(
            Set(stats.keys) == [
                "events", "conversations", "messages", "journal_bytes", "archive_bytes", "raw_bytes", "compressed_bytes", "bytes_per_event", "segments",
                "free_pages", "oldest_reader",
            ])
        let verify = try Program.run("verify", "--store", store, "--json").object()
        #expect(Set(verify.keys) == ["ok", "events", "conversations", "segments", "problems"])
        #expect(verify["ok"] as? Bool == true)
        let head = try Program.run("audit", "head", "--store", store, "--json").object()
        #expect(Set(head.keys) == ["conversation_id", "size", "root"])
        #expect(head["size"] as? Int == 2)
        let bench = try Program.run("bench", "append", "--input", folder["events.jsonl"], "--store", folder["new"], "--json").object()
        #expect(Set(bench.keys).isSuperset(of: ["events_per_second", "p50_us", "p99_us", "max_us", "bytes_written", "peak_bytes"]))
        let replay = try Program.run("bench", "replay", "--store", folder["new"], "--json").object()
        #expect(Set(replay.keys).isSuperset(of: ["events_per_second", "p50_us", "p99_us", "max_us", "bytes_written", "peak_bytes"]))
    }

    @Test("The beginning of an id will do, where it names one conversation only")
    func prefixes() throws {
        try fill(Lines.created(1) + Lines.created(2) + Lines.created(11))
        #expect(try Program.run("export", "--store", store, "--conversation", "00000002").lines.count == 1)
        #expect(try Program.run("export", "--store", store, "--conversation", Lines.id(1)).lines.count == 1)
        let ambiguous = try Program.run("export", "--store", store, "--conversation", "00000001")
        #expect(ambiguous.status == 64)
        #expect(ambiguous.errors.contains(Lines.id(1)) && ambiguous.errors.contains(Lines.id(11)))
        #expect(try Program.run("export", "--store", store, "--conversation", "ff").status == 66)
        #expect(try Program.run("export", "--store", store, "--conversation", Lines.id(9)).status == 66)
    }

    @Test("People's output holds no control character but newline, and no bidirectional control")
    func terminalEscapes() throws {
        let hostile = #"\u001b[31m\u0007\u009b\u0008\u202e\u200b\r\n\u007fend"#
        try fill(Lines.created(1, title: hostile) + Lines.sent(1, message: 2, hostile))
        for command in ["replay", "conversations", "export", "stats"] {
            let output = try Program.run(command, "--store", store).output
            let isHarmless = output.unicodeScalars.allSatisfy { scalar in
                switch scalar.value {
                case 0x0A: true
                case 0..<0x20, 0x7F...0x9F: false
                case 0x202E, 0x200B: command == "export"
                default: true
                }
            }
            #expect(isHarmless, "\(command)")
        }
        let replay = try Program.run("replay", "--store", store).output
        #expect(replay.contains(#"^[[31m^G\u{9B}^H\u{202E}\u{200B}^M"#))
        #expect(replay.contains("\n    ^?end"))
    }

    @Test("A reader that goes away ends the command quietly")
    func brokenPipe() throws {
        try Program.run("import", "--store", store, "--keep-going", Lines.fixtures + "/events/seed-1.jsonl.zst")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", "\"$0\" export --store \"$1\" | head -n 1", Program.path, store]
        let output = Pipe()
        let errors = Pipe()
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        process.waitUntilExit()
        #expect(errors.fileHandleForReading.readDataToEndOfFile().isEmpty)
    }

    @Test("Positions bound a replay, and --json is what export writes")
    func replay() throws {
        try fill(Lines.created(1) + Lines.sent(1, message: 2, "one") + Lines.sent(1, message: 3, "two"))
        let all = try Program.run("export", "--store", store).lines
        #expect(try Program.run("replay", "--store", store, "--json", "--from", "2", "--to", "2").lines == [all[1]])
        #expect(try Program.run("replay", "--store", store, "--json", "--from", "3", "--to", "2").status == 64)
    }

    @Test("A pace slower than any clock waits; it does not overflow")
    func slowest() throws {
        try fill(Lines.created(1) + Lines.sent(1, message: 2, "one"))
        let (process, _, _, kept) = try Program.start(["replay", "--store", store, "--speed", "5e-324"])
        // The first event is shown at once; then it waits for the second.
        #expect(Program.eventually { try kept.text("output").contains("of a, b") || !process.isRunning })
        #expect(process.isRunning)
        kill(process.processIdentifier, SIGKILL)  // Whoever runs the tests may have blocked the others.
        process.waitUntilExit()
        #expect(try kept.text("output").contains("of a, b"))
        #expect(try kept.text("errors").isEmpty)
    }

    @Test("Descriptors that were closed at the start cost nobody their bytes: 74 where something was to be written")
    func closedDescriptors() throws {
        try fill(Lines.created(1) + Lines.sent(1, message: 2, "one"))
        for (closing, status) in [("<&-", 0), (">&-", 74), ("2>&-", 0), ("<&- >&- 2>&-", 74), (">/dev/full", 74)] {
            for command in ["export --store \"$1\"", "import --json --store \"$1\" \"$2\"", "--version"] {
                let process = Process()
                process.executableURL = URL(fileURLWithPath: "/bin/sh")
                process.arguments = ["-c", "\"$0\" \(command) \(closing)", Program.path, store, folder["events.jsonl"]]
                process.standardOutput = FileHandle.nullDevice
                process.standardError = FileHandle.nullDevice
                try process.run()
                process.waitUntilExit()
                #expect(process.terminationStatus == status, "\(command) \(closing)")
            }
        }
        #expect(try Program.run("verify", "--store", store).status == 0)
    }

    @Test("Proofs made with the store are checked without it, and a changed one is exit 65")
    func proofs() throws {
        try fill(Lines.created(1) + Lines.sent(1, message: 2, "one") + Lines.sent(1, message: 3, "two"))
        let note = try Program.run("audit", "checkpoint", "--store", store)
        let key = try Program.run("audit", "checkpoint", "--store", store, "--key").output.trimmingCharacters(in: .newlines)
        try folder.write("note", note.output)
        #expect(try Program.run("audit", "check", "--key", key, folder["note"]).status == 0)
        let proof = folder["proof"]
        #expect(try Program.run("audit", "prove", "--store", store, "--conversation", "0", "--seq", "2", "--output", proof).status == 0)
        #expect(try Program.run("audit", "check", proof, "--key", key).status == 0)
        #expect(try Program.run("audit", "check", folder["note"]).status == 64)
        for text in ["", "no proof\n"] {
            let neither = try Program.run("audit", "check", "--json", try folder.write("neither", text))
            #expect(neither.status == 65 && neither.errors.contains("is no proof and no signed checkpoint"))
            #expect(try neither.object()["ok"] as? Bool == false)
        }
        try folder.write("changed", folder.text("proof").replacing("\"seq\":2", with: "\"seq\":3"))
        #expect(try Program.run("audit", "check", folder["changed"]).status == 65)
        #expect(try Program.run("audit", "check", "--json", folder["changed"]).object()["ok"] as? Bool == false)
        #expect(try Program.run("audit", "check", "--json", proof).object()["ok"] as? Bool == true)
        let grown = try Program.run("audit", "prove", "--store", store, "--conversation", "0", "--from", "1", "--to", "3").output
        try folder.write("grown", grown)
        #expect(try Program.run("audit", "check", folder["grown"]).status == 0)
    }

    @Test("An erased text is gone after compact, and the head stays")
    func erase() throws {
        try fill(Lines.created(1) + Lines.sent(1, message: 2, "the secret of all secrets"))
        let head = try Program.run("audit", "head", "--store", store, "--json").output
        for (seq, status, words) in [("1", Int32(65), "who takes part"), ("3", 66, "no seq 3"), ("x", 64, "'x'")] {
            let refused = try Program.run("erase", "--store", store, "0", seq)
            #expect(refused.status == status && refused.errors.contains(words), "\(seq): \(refused.errors)")
        }
        #expect(try Program.run("erase", "--store", store, "0", "2").status == 0)
        #expect(try Program.run("compact", "--store", store).status == 0)
        #expect(try Program.run("audit", "head", "--store", store, "--json").output == head)
        #expect(try Program.run("verify", "--store", store).status == 0)
        #expect(try !Program.run("export", "--store", store).output.contains("secrets"))
    }
}
