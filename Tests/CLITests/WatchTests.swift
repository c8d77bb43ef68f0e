import Foundation
import Testing

@Suite("convstore watch") struct WatchTests {
    private let folder: Folder
    private let store: String
    private let chat: String

    init() throws {
        folder = try Folder()
        store = folder["store"]
        chat = try Program.run("new", "--store", store, "--author", "ada", "--participant", "bob").output.trimmingCharacters(in: .newlines)
    }

    private func send(_ text: String, by author: String = "ada", to chat: String? = nil) throws {
        try #require(try Program.run("send", "--store", store, chat ?? self.chat, text, "--author", author).status == 0)
    }

    private func rows(_ files: Folder) throws -> [[String: Any]] {
        // The last line may be half there.
        let text = try files.text("output")
        let whole = text[..<(text.lastIndex(of: "\n") ?? text.startIndex)]
        return try Program.Outcome(status: 0, output: String(whole), errors: "").objects()
    }

    @Test("A conversation's messages are shown once each, and again when they change, while other processes write; SIGINT ends it with 0")
    func timeline() throws {
        try send("before")
        let (process, _, _, files) = try Program.start(["watch", "--store", store, chat, "--json"])
        #expect(Program.eventually { try rows(files).count == 1 })
        for number in 1...10 { try send("message \(number)") }
        #expect(Program.eventually { try rows(files).count == 11 })
        #expect(try rows(files).compactMap { $0["seq"] as? Int } == Array(2...12))
        try Program.run("edit", "--store", store, chat, "@2", "edited", "--author", "ada")
        #expect(Program.eventually { try rows(files).count == 12 })
        #expect(try rows(files).last?["text"] as? String == "edited")
        try Program.run("read", "--store", store, chat, "@3", "--author", "bob")
        #expect(Program.eventually { try rows(files).count == 14 })
        #expect(try rows(files).suffix(2).compactMap { $0["read_by"] as? [String] } == [["bob"], ["bob"]])
        usleep(300_000)
        #expect(try rows(files).count == 14)
        #expect(Program.interrupt(process) == 0)
        #expect(try files.text("errors").isEmpty)
    }

    @Test("Beside one writer that goes on for long: no gap, no repeat, and a streamed answer grows to its end")
    func besideAWriter() throws {
        let (process, _, _, files) = try Program.start(["watch", "--store", store, chat, "--json", "--limit", "0"])
        let input = Pipe()
        let (recorder, _, _, kept) = try Program.start(["record", "--store", store, chat, "--author", "bob"], input: input)
        var expected = ""
        for number in 0..<200 {
            expected += "\(number) "
            let payload = #"data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"\#(number) "}}]}"# + "\n\n"
            try input.fileHandleForWriting.write(contentsOf: Data(payload.utf8))
            if number % 10 == 0 { usleep(70_000) }
            // However slow the machine is: what was there by now is shown before the rest comes.
            if number == 100 { #expect(Program.eventually { try !rows(files).isEmpty }) }
        }
        try input.fileHandleForWriting.close()
        recorder.waitUntilExit()
        withExtendedLifetime(kept) {}
        #expect(Program.eventually { try rows(files).last?["state"] as? String == "interrupted" })
        #expect(Program.interrupt(process) == 0)
        let all = try rows(files)
        let texts = all.compactMap { $0["text"] as? String }
        #expect(texts.last == expected)
        for (earlier, later) in zip(texts, texts.dropFirst()) { #expect(later.hasPrefix(earlier)) }
        #expect(all.count > 1)
        // Each line tells something new.
        let versions = all.map { row in "\(row["chunks"] as? Int ?? 0) \(row["state"] as? String ?? "")" }
        #expect(Set(versions).count == all.count)
    }

    @Test("A lobby's rows are shown once each, and again when they change; those of others never")
    func lobby() throws {
        try send("before")
        let (process, _, _, files) = try Program.start(["watch", "--store", store, "--user", "bob", "--json"])
        #expect(Program.eventually { try rows(files).count == 1 })
        try send("hi")
        #expect(Program.eventually { try rows(files).count == 2 })
        #expect(try rows(files).last?["unread"] as? Int == 2)
        let other = try Program.run("new", "--store", store, "--author", "carol").output.trimmingCharacters(in: .newlines)
        try send("among others", by: "carol", to: other)
        try Program.run("read", "--store", store, chat, "--author", "bob")
        #expect(Program.eventually { try rows(files).count == 3 })
        #expect(try rows(files).last?["unread"] as? Int == 0)
        try Program.run("leave", "--store", store, chat, "--author", "bob")
        #expect(Program.eventually { try rows(files).count == 4 })
        #expect(try rows(files).last?["removed"] as? Bool == true)
        #expect(Program.interrupt(process) == 0)
        #expect(try rows(files).allSatisfy { $0["conversation_id"] as? String == chat })
    }

    @Test("For people a lobby's row is not printed again when what changed of it is not seen")
    func lobbyForPeople() throws {
        let (process, _, _, files) = try Program.start(["watch", "--store", store, "--user", "bob"])
        // Longer than a line of 80, shorter than the snippet of 120.
        let long = String(repeating: "words ", count: 16)
        try send(long)
        #expect(Program.eventually { try files.text("output").contains("words words") })
        for number in 0..<3 {
            try Program.run("edit", "--store", store, chat, "--author", "ada", "@2", long + "\(number)")
            Thread.sleep(forTimeInterval: 0.3)
        }
        try send("something else")
        #expect(Program.eventually { try files.text("output").contains("something else") })
        #expect(Program.interrupt(process) == 0)
        #expect(try files.text("output").split(separator: "\n").count { $0.contains("words words") } == 1)
    }

    @Test("SIGINT ends it though nobody reads what it prints", arguments: [true, false]) func readerWaits(_ json: Bool) throws {
        for number in 1...3 { try send("\(number) " + String(repeating: "word ", count: 20_000)) }
        let (process, output) = try Program.startUnread(["watch", "--store", store, chat] + (json ? ["--json"] : []))
        // The pipe is full.
        usleep(500_000)
        #expect(process.isRunning)
        #expect(Program.interrupt(process) == 0)
        withExtendedLifetime(output) {}
    }

    @Test("What is erased meanwhile is shown as erased, in a conversation and in a lobby") func erased() throws {
        try send("secret")
        try send("public")
        let (process, _, _, files) = try Program.start(["watch", "--store", store, chat, "--json"])
        let (lobby, _, _, lobbyFiles) = try Program.start(["watch", "--store", store, "--user", "bob", "--json"])
        #expect(Program.eventually { try rows(files).count == 2 && rows(lobbyFiles).count == 1 })
        for seq in ["2", "3"] { #expect(try Program.run("erase", "--store", store, chat, seq).status == 0) }
        #expect(Program.eventually { try rows(files).suffix(2).map { $0["state"] as? String } == ["erased", "erased"] })
        #expect(Program.eventually { try (rows(lobbyFiles).last?["last_message"] as? [String: Any])?["state"] as? String == "erased" })
        #expect(Program.interrupt(process) == 0)
        #expect(Program.interrupt(lobby) == 0)
        #expect(try rows(files).count == 4)
    }

    @Test("It ends when its reader goes away, though nothing happens")
    func readerGoes() throws {
        try send("before")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", "\"$0\" watch --store \"$1\" \"$2\" --json | head -n 1", Program.path, store, chat]
        let errors = Pipe()
        process.standardOutput = FileHandle.nullDevice
        process.standardError = errors
        try process.run()
        #expect(Program.eventually { !process.isRunning })
        if process.isRunning { process.terminate() }
        #expect(errors.fileHandleForReading.readDataToEndOfFile().isEmpty)
    }

    @Test("One thing is watched")
    func usage() throws {
        #expect(try Program.run("watch", "--store", store).status == 64)
        #expect(try Program.run("watch", "--store", store, chat, "--user", "ada").status == 64)
        #expect(try Program.run("watch", "--store", store, "ffff").status == 66)
        #expect(try Program.run("watch", "--store", folder["none"], "--user", "ada").status == 66)
    }
}
