import Foundation
import Testing

@Suite("convstore new, send and the rest of a chat") struct ChatTests {
    private let folder: Folder
    private let store: String

    init() throws {
        folder = try Folder()
        store = folder["store"]
    }

    private func new(_ arguments: String...) throws -> String {
        let answer = try Program.run(["new", "--store", store, "--author", "ada", "--participant", "bob", "--json"] + arguments).object()
        return try #require(answer["conversation_id"] as? String)
    }

    /// Runs a command on the store, as JSON.
    private func run(_ command: String, _ arguments: String...) throws -> Program.Outcome {
        try Program.run([command, "--store", store, "--json"] + arguments)
    }

    private func rows(_ conversation: String) throws -> [[String: Any]] { try run("timeline", conversation).objects() }

    @Test("new makes store and conversation, and prints the id and nothing else")
    func newPrintsID() throws {
        let outcome = try Program.run("new", "--store", store, "--author", "ada", "--title", "Plans")
        #expect(outcome.status == 0)
        let id = outcome.output.trimmingCharacters(in: .newlines)
        #expect(UUID(uuidString: id) != nil)
        let row = try run("lobby", "--user", "ada").object()
        #expect(row["title"] as? String == "Plans")
        #expect(row["kind"] as? String == "direct")
        #expect(row["conversation_id"] as? String == id)
    }

    @Test("Each command answers with ids, seq and position, and timeline shows what it did")
    func conversation() throws {
        let chat = try new()
        let sent = try run("send", chat, "Hello", "--author", "ada").object()
        #expect(Set(sent.keys) == ["conversation_id", "message_id", "seq", "position"])
        #expect(sent["seq"] as? Int == 2)
        #expect(sent["position"] as? Int == 2)
        let message = try #require(sent["message_id"] as? String)
        let prefix = String(message.prefix(10))

        #expect(try run("send", String(chat.prefix(6)), "Hi", "--author", "bob", "--reply-to", prefix).object()["seq"] as? Int == 3)
        #expect(try run("edit", chat, prefix, "Hello!", "--author", "ada").object()["message_id"] as? String == message)
        #expect(try run("react", chat, "@2", "👍", "--author", "bob").object()["message_id"] as? String == message)
        #expect(try run("read", chat, "--author", "ada").status == 0)
        #expect(try run("delete", chat, "@3", "--author", "bob").status == 0)
        let shown = try rows(chat)
        #expect(shown.count == 2)
        #expect(shown[0]["text"] as? String == "Hello!")
        #expect(shown[0]["edited"] as? Bool == true)
        #expect(shown[0]["reactions"] as? [String: [String]] == ["👍": ["bob"]])
        #expect(shown[1]["state"] as? String == "deleted")
        #expect(shown[1]["reply_to"] as? String == message)
        #expect(shown[1]["read_by"] as? [String] == ["ada"])

        #expect(try run("react", chat, "@2", "👍", "--author", "bob", "--remove").status == 0)
        #expect(try rows(chat)[0]["reactions"] as? [String: [String]] == [:])
        #expect(try Set(run("join", chat, "carol", "--author", "ada").object().keys) == ["conversation_id", "seq", "position"])
        #expect(try run("leave", chat, "--author", "bob").status == 0)
        #expect(try run("leave", chat, "carol", "--author", "ada").status == 0)
        #expect(try run("lobby", "--user", "ada").object()["participants"] as? [String] == ["ada"])
        #expect(try Program.run("verify", "--store", store, "--projections").status == 0)
    }

    @Test("I3: a repeat of the same changes nothing and says so; another content is a conflict")
    func duplicates() throws {
        let (chat, id) = (UUID().uuidString.lowercased(), UUID().uuidString.lowercased())
        #expect(try new("--id", chat) == chat)
        #expect(try run("new", "--author", "ada", "--participant", "bob", "--id", chat).object()["duplicate"] as? Bool == true)
        let conflict = try run("new", "--author", "ada", "--title", "other", "--id", chat)
        #expect(conflict.status == 65)
        #expect(conflict.errors.contains("conversation_conflict"))
        #expect(try run("send", chat, "x", "--author", "ada", "--id", id).object()["duplicate"] == nil)
        let again = try run("send", chat, "x", "--author", "ada", "--id", id).object()
        #expect(again["duplicate"] as? Bool == true)
        #expect(again["seq"] as? Int == 2)
        #expect(try run("send", chat, "y", "--author", "ada", "--id", id).errors.contains("message_conflict"))
        #expect(try rows(chat).count == 1)
    }

    @Test("A refusal is exit 65 with its code, and nothing on standard output")
    func refusals() throws {
        let chat = try new()
        _ = try run("send", chat, "Hello", "--author", "ada")
        let cases: [(String, [String])] = [
            ("not_participant", ["send", chat, "x", "--author", "eve"]),
            ("not_author", ["edit", chat, "@2", "x", "--author", "bob"]),
            ("unknown_message", ["edit", chat, "@9", "x", "--author", "ada"]),
            ("unknown_message", ["delete", chat, "ffffffff-0", "--author", "ada"]),
            ("unknown_message", ["delete", chat, UUID().uuidString, "--author", "ada"]),
            ("message_closed", ["interrupt", chat, "@2", "--author", "ada"]),
            ("message_closed", ["interrupt", chat, "--author", "ada"]),
            ("malformed", ["react", chat, "@2", String(repeating: "x", count: 65), "--author", "ada"]),
        ]
        for (code, arguments) in cases {
            let outcome = try Program.run([arguments[0], "--store", store, "--json"] + arguments.dropFirst())
            #expect(outcome.status == 65, "\(arguments)")
            #expect(outcome.errors.contains(code), "\(arguments): \(outcome.errors)")
            #expect(outcome.output.isEmpty)
        }
        #expect(try run("send", "ffffff", "x", "--author", "ada").status == 66)
        #expect(try run("send", chat, "x", "--author", "").status == 64)
        #expect(try run("react", chat, "no id", "x", "--author", "ada").status == 64)
        #expect(try Program.run("send", "--store", folder["none"], chat, "x", "--author", "ada").status == 66)
    }

    @Test("The beginning of several messages' ids is exit 64 and names them")
    func ambiguous() throws {
        let chat = try new()
        let ids = (1...2).map { "0000000\($0)-0000-4000-8000-000000000000" }
        for id in ids { _ = try run("send", chat, "x", "--author", "ada", "--id", id) }
        let outcome = try run("delete", chat, "0000", "--author", "ada")
        #expect(outcome.status == 64)
        #expect(ids.allSatisfy { outcome.errors.contains($0) })
        #expect(try run("delete", chat, "00000002", "--author", "ada").object()["message_id"] as? String == ids[1])
    }

    @Test("A message that is being streamed is found though a thousand were sent after it")
    func interruptsFarBack() throws {
        let (chat, first) = (Lines.id(0), Lines.id(1))
        var lines = Lines.created(0) + Lines.sent(0, message: 1, "").replacing(#""text""#, with: #""streaming":true,"text""#)
        // Ids of their own: those of `Lines` have two digits.
        for number in 1000..<2000 { lines += Lines.sent(0, message: 2, "x").replacing(Lines.id(2), with: "00000002-0000-4000-8000-00000000\(number)") }
        #expect(try Program.run("import", "--store", store, folder.write("events.jsonl", lines)).status == 0)
        #expect(try run("interrupt", chat, "--author", "b").object()["message_id"] as? String == first)
        #expect(try run("interrupt", chat, "--author", "b").errors.contains("message_closed"))
    }

    @Test("- takes the text from standard input, without the last line's end")
    func standardInput() throws {
        let chat = try new()
        #expect(try Program.run("send", "--store", store, chat, "-", "--author", "ada", input: "two\nlines\n\n").status == 0)
        for (input, text) in [("abc\r", "abc\r"), ("abc\r\n", "abc"), ("abc\n\r", "abc\n\r")] {
            #expect(try Program.run("send", "--store", store, chat, "-", "--author", "ada", input: input).status == 0)
            #expect(try Program.run("timeline", "--store", store, chat, "--limit", "1", "--json").objects().first?["text"] as? String == text)
        }
        #expect(try rows(chat)[0]["text"] as? String == "two\nlines\n")
    }

    @Test("A text that begins with - is not taken for a call for help: exit 64 says where it goes", arguments: ["- the bread", "-> this", "-1", "-help"])
    func dashes(text: String) throws {
        let chat = try new()
        for arguments in [["send", chat, text], ["edit", chat, "@2", text], ["new", "--title", text]] {
            let outcome = try Program.run([arguments[0], "--store", store, "--author", "ada"] + arguments.dropFirst())
            #expect(outcome.status == 64)
            #expect(outcome.output.isEmpty)
            #expect(outcome.errors.contains("\"\(text)\" begins with -"))
        }
        #expect(try rows(chat).isEmpty)
        #expect(try Program.run("send", "--store", store, "--author", "ada", chat, "--", text).status == 0)
        #expect(try rows(chat)[0]["text"] as? String == text)
        #expect(try new("--title=\(text)").isEmpty == false)
        #expect(try Program.run("send", "-h").status == 0)
    }

    @Test("What is not UTF-8 is refused, as an argument (64) and on standard input (65), and nothing is stored")
    func foreignBytes() throws {
        let chat = try new()
        for (script, status) in [
            (#"exec "$0" send --store "$1" --author ada "$2" "$(printf 'caf\351')""#, 64),
            (#"exec "$0" send --store "$1" --author "$(printf 'ad\341')" "$2" x"#, 64),
            (#"printf 'caf\351' | "$0" send --store "$1" --author ada "$2" -"#, 65),
        ] {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            process.arguments = ["-c", script, Program.path, store, chat]
            let errors = Pipe()
            process.standardError = errors
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            #expect(process.terminationStatus == status, "\(script)")
            #expect(String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self).contains("is not UTF-8"))
        }
        #expect(try rows(chat).isEmpty)
    }

    @Test("window answers with rows, an estimate named as one, and the seqs that it chose")
    func window() throws {
        let chat = try new()
        _ = try run("send", chat, "Be brief.", "--author", "ada", "--role", "system")
        for number in 1...9 { _ = try run("send", chat, "message \(number)", "--author", "ada") }
        let window = try run("window", chat, "--budget", "40", "--reserve", "10").object()
        #expect(Set(window.keys) == ["messages", "tokens", "first_seq", "last_seq", "system_seq", "seq", "counter"])
        let messages = try #require(window["messages"] as? [[String: Any]])
        #expect(messages.compactMap { $0["seq"] as? Int } == [2, 9, 10, 11])
        #expect(try (messages as NSArray) == [self.rows(chat)[0]] + self.rows(chat).suffix(3) as NSArray)
        #expect(window["tokens"] as? Int == 7 + 3 * 7)
        #expect(window["first_seq"] as? Int == 9)
        #expect(window["last_seq"] as? Int == 11)
        #expect(window["system_seq"] as? Int == 2)
        #expect(window["seq"] as? Int == 11)
        #expect(window["counter"] as? String == "estimate-4-characters")
        #expect(try run("window", chat).status == 64)
        #expect(try run("window", "ffff", "--budget", "1").status == 66)
    }
}
