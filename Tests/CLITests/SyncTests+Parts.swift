import Foundation
import Testing

/// Of what is held in part: scopes, and what stands beside the logs.
extension SyncTests {
    @Test("Whoever watches a newest part is told what became of what stands above the page") func sentAbovePage() throws {
        try ada.sync(hub, "--scope", "newest:100:2")
        let ids = try (1...3).map { try #require(try ada.act("send", shared[0], "pending \($0)")["message_id"] as? String) }
        let (process, _, _, files) = try Program.start(["watch", "--store", ada.store, shared[0], "--json", "--limit", "3"])
        func lines() throws -> [[String: Any]] { try Program.Outcome(status: 0, output: files.text("output"), errors: "").objects() }
        #expect(Program.eventually { try files.text("output").hasSuffix("\n") && lines().count == 3 })
        try ada.act("send", shared[0], "pending 4")
        #expect(Program.eventually { try files.text("output").hasSuffix("\n") && lines().last?["text"] as? String == "pending 4" })
        try ada.sync(hub, "--scope", "newest:100:2")
        func states() throws -> [String: String] {
            Dictionary(try lines().compactMap { line in (line["message_id"] as? String).map { ($0, line["state"] as? String ?? "removed") } }) { $1 }
        }
        #expect(Program.eventually { try files.text("output").hasSuffix("\n") && ids.allSatisfy { try states()[$0] == "complete" } })
        #expect(try !states().values.contains("removed"))
        #expect(Program.interrupt(process) == 0)
    }

    @Test("Whoever watches is told of what is withdrawn") func withdrawn() throws {
        try ada.sync(hub)
        let (process, _, _, files) = try Program.start(["watch", "--store", ada.store, shared[0], "--json", "--limit", "2"])
        func lines() throws -> [[String: Any]] { try Program.Outcome(status: 0, output: files.text("output"), errors: "").objects() }
        #expect(Program.eventually { try files.text("output").hasSuffix("\n") && lines().count == 2 })
        let ids = try (1...4).map { try #require(try ada.act("send", shared[0], "pending \($0)")["message_id"] as? String) }
        #expect(Program.eventually { try files.text("output").hasSuffix("\n") && lines().last?["message_id"] as? String == ids[3] })
        for entry in ["1", "4"] { #expect(try Program.run("outbox", "--store", ada.store, "--discard", entry).status == 0) }
        let removed = { try lines().filter { $0["removed"] as? Bool == true }.compactMap { $0["message_id"] as? String } }
        #expect(Program.eventually { try files.text("output").hasSuffix("\n") && removed().count == 2 })
        let output = try files.text("output")
        #expect(try removed() == [ids[0], ids[3]], "\(output)")
        #expect(Program.interrupt(process) == 0)
    }

    @Test("A scope brings the newest conversations' newest messages and says what is missing; a wider one fills it") func scope() throws {
        let report = try ada.sync(hub, "--scope", "newest:2:5")
        #expect(report["holes"] as? Int ?? 0 > 0)
        // What lies beside the log was received like all else; the user's own log is whole.
        let beside = try ada.run("conversations").objects().reduce(0) { $0 + ($1["beside"] as? Int ?? 0) }
        let received = try #require(report["received"] as? Int)
        #expect(beside > 0 && received == beside + (report["events"] as? Int ?? .max / 2), "\(report)")
        let rows = try ada.run("lobby", "--user", ada.user).objects()
        #expect(rows.count == 2)
        var hasHole = false
        for row in rows {
            let chat = try #require(row["conversation_id"] as? String)
            let lines = try ada.run("timeline", chat).objects()
            #expect(lines.compactMap { $0["text"] }.count <= 5)
            hasHole = hasHole || lines.contains { $0["hole"] != nil }
        }
        #expect(hasHole)
        let one = Device(ada.user, in: folder, "one")
        try one.sync(hub, "--scope", shared[0])
        #expect(try Shown.heads(one.store).count == 1 && Shown.timeline(one.store, shared[0]) == Shown.timeline(hub.store, shared[0]))
        for device in [ada, one] {
            let whole = try device.sync(hub, "--scope", "all")
            #expect(whole["holes"] as? Int == 0)
            if device.store == ada.store { #expect(whole["received"] as? Int ?? 0 == (whole["events"] as? Int ?? 0) - received, "\(whole)") }
            try expectSame(device)
        }
    }

    @Test("What reads logs says what a replica holds beside them: conversations, heads, exports, replays, counts") func parts() throws {
        try ada.sync(hub, "--scope", "newest:2:5")
        let rows = try ada.run("conversations").objects()
        #expect(rows.count == 2)
        var beside = 0
        for row in rows {
            let id = try #require(row["conversation_id"] as? String)
            let size = try #require(try Program.run("audit", "head", "--store", hub.store, "--conversation", id, "--json").object()["size"] as? Int)
            let (hole, count, first) = (row["hole"] as? [Int], row["beside"] as? Int ?? 0, row["beside_from"] as? Int)
            #expect(row["events"] as? Int == 0 && hole == [1, size - count] && first == size - count + 1, "\(row)")
            let shown = try ada.run("timeline", id).objects().compactMap { $0["hole"] as? [Int] }
            #expect(shown == [[1, size - count]])
            let people = try Program.run("conversations", "--store", hub.store, "--json").objects().first { $0["conversation_id"] as? String == id }
            #expect(row["participants"] as? [String] == people?["participants"] as? [String])
            beside += count
            for command in [["export"], ["replay", "--json"], ["audit", "head"]] {
                let one = try Program.run(command + ["--store", ada.store, "--conversation", id])
                #expect(one.status == 66 && one.output.isEmpty && one.errors.contains("only the newest part is held"), "\(one.errors)")
            }
        }
        for command in [["export"], ["replay", "--json"], ["audit", "head"]] {
            let all = try Program.run(command + ["--store", ada.store])
            #expect(all.status == 0 && all.errors.contains("2 conversations are held only in part: \(beside) events"), "\(all.errors)")
        }
        for command in ["verify", "stats"] { #expect(try ada.run(command).object()["partial"] as? Int == 2) }
        #expect(try Program.run("verify", "--store", ada.store).output.contains("held only in part: 2 conversations"))
        #expect(try Program.run("conversations", "--store", ada.store).output.contains("2 of them held only in part"))

        // Its log is sound, whatever has become of what lies beside it.
        let sound = try Data(contentsOf: URL(fileURLWithPath: ada.store + "/sync"))
        var bytes = sound
        for place in stride(from: 8192 + 100, to: bytes.count, by: 512) { bytes[place] ^= 0x40 }
        try bytes.write(to: URL(fileURLWithPath: ada.store + "/sync"))
        let damaged = try Program.run("export", "--store", ada.store)
        #expect(damaged.status == 0 && damaged.errors.contains("cannot be told"), "\(damaged.errors)")
        let report = try ada.run("verify")
        #expect(report.status == 65 && !report.output.contains("partial"), "\(report.output)")
        try sound.write(to: URL(fileURLWithPath: ada.store + "/sync"))

        try ada.sync(hub, "--scope", "all")
        for command in [["export"], ["replay", "--json"], ["audit", "head"], ["conversations"]] {
            let all = try Program.run(command + ["--store", ada.store])
            #expect(all.status == 0 && !all.errors.contains("in part") && !all.output.contains("in part"), "\(all.errors)")
        }
        #expect(try ada.run("verify").object()["partial"] as? Int == 0)
        #expect(try !ada.run("conversations").output.contains("beside"))
    }

    @Test("What begins with a joining is held in part without a hole") func joined() throws {
        try ada.sync(hub)
        let id = try #require(try ada.act("new", "--history", "from-joining")["conversation_id"] as? String)
        for number in 1...3 { try ada.act("send", id, "before \(number)") }
        try ada.act("join", id, bob.user)
        for number in 1...2 { try ada.act("send", id, "after \(number)") }
        try ada.sync(hub)
        try bob.sync(hub)
        let row = try #require(try bob.run("conversations").objects().first { $0["conversation_id"] as? String == id })
        #expect(row["hole"] == nil && row["events"] as? Int == 0, "\(row)")
        #expect(row["participants"] as? [String] == [ada.user, bob.user])
        let timeline = try bob.run("timeline", id).objects()
        #expect(timeline.compactMap { $0["text"] as? String }.sorted() == ["after 1", "after 2"])
        let first = try #require(row["beside_from"] as? Int)
        #expect(timeline.compactMap { $0["seq"] as? Int }.allSatisfy { $0 >= first } && row["beside"] as? Int ?? 0 >= 2, "\(row)")
        #expect(try bob.run("verify").object()["partial"] as? Int == 1)
    }
}
