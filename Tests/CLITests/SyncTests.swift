import Foundation
import Testing

@Suite("convstore serve, sync, outbox and follow") struct SyncTests {
    let folder: Folder
    let hub: ServedHub
    let ada: Device
    let bob: Device
    /// In which both take part.
    let shared: [String]

    init() throws {
        folder = try Folder()
        let store = folder["hub"]
        let file = Lines.fixtures + "/events/seed-2.jsonl.zst"
        try #require(try Program.run("import", "--store", store, "--keep-going", "--json", file).status == 0)
        (ada, bob) = (Device("user-6", in: folder), Device("user-7", in: folder))
        let people = [ada.user, bob.user]
        shared = try Program.run("conversations", "--store", store, "--json").objects().compactMap { row in
            let names = row["participants"] as? [String] ?? []
            return people.allSatisfy(names.contains) ? row["conversation_id"] as? String : nil
        }
        try #require(shared.count >= 3)
        hub = try ServedHub(store)
    }

    /// The device shows what the hub shows its user, and holds just what its user may see.
    func expectSame(_ device: Device, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let lobby = try Shown.lobby(device.store, device.user)
        #expect(try lobby == Shown.lobby(hub.store, device.user), sourceLocation: sourceLocation)
        let (own, all) = try (Shown.heads(device.store), Shown.heads(hub.store))
        let conversations = try Shown.conversations(lobby)
        for conversation in conversations {
            #expect(own.contains { $0.hasPrefix(conversation) && all.contains($0) }, "\(conversation)", sourceLocation: sourceLocation)
        }
        // Of a conversation that the user left, it holds what was before.
        #expect(own.count < all.count && own.count >= conversations.count, sourceLocation: sourceLocation)
        for conversation in conversations.prefix(8) + shared {
            #expect(
                try Shown.timeline(device.store, conversation) == Shown.timeline(hub.store, conversation), "\(conversation)", sourceLocation: sourceLocation)
        }
        #expect(try device.outbox.isEmpty, sourceLocation: sourceLocation)
        #expect(try Program.run("verify", "--store", device.store, "--projections").status == 0, sourceLocation: sourceLocation)
    }

    @Test("A damaged byte of a copy costs its block, and the copy goes on as it was; where the hub has other bytes, the events come again")
    func repaired() throws {
        let copy = folder["copy"]
        func follow() throws -> [String: Any] {
            let outcome = try Program.run(
                "follow", "--store", copy, "--server", hub.url, "--user", "backup", "--once", "--verify", "--json")
            try #require(outcome.status == 0, "\(outcome.errors)")
            return try outcome.object()
        }
        func bytes(_ report: [String: Any]) -> Int { (report["bytes_in"] as? Int ?? .max / 2) + (report["bytes_out"] as? Int ?? .max / 2) }
        let first = try follow()
        let heads = try Shown.heads(copy)
        // Else the copy needs no hub for that.
        try FileManager.default.removeItem(atPath: copy + "/parity")
        try Self.flip(copy)
        #expect(try Program.run("verify", "--store", copy).status == 65)
        let second = try follow()
        #expect(second["received"] as? Int == 0 && second["connections"] as? Int == 2, "\(second)")
        #expect(bytes(second) < 16 << 10 && bytes(second) < bytes(first) / 4, "\(second)")
        #expect(try Program.run("verify", "--store", copy, "--projections").status == 0 && Shown.heads(copy) == heads)
        // A device has what the hub encoded for it.
        try ada.sync(hub)
        try? FileManager.default.removeItem(atPath: ada.store + "/parity")
        try Self.flip(ada.store)
        let third = try ada.sync(hub, "--verify")
        #expect(third["received"] as? Int ?? 0 > 0, "\(third)")
        try expectSame(ada)
    }

    @Test("A damaged byte of a large run is set right without the hub, on a device and in the hub's own store") func setRight() throws {
        try bob.sync(hub)
        for _ in 0..<12 { try bob.act("send", shared[0], (0..<1600).map { _ in String(UInt64.random(in: 0 ... .max), radix: 36) }.joined()) }
        try bob.sync(hub)
        try ada.sync(hub)
        let heads = try Shown.heads(ada.store)
        try Self.flip(ada.store, bytesMin: 64 << 10)
        #expect(try Program.run("verify", "--store", ada.store).status == 65)
        let mended = try Program.run("sync", "--store", ada.store, "--server", hub.url, "--user", ada.user, "--verify", "--json")
        let report = try mended.object()
        #expect(mended.status == 0 && mended.errors.contains("1 run set right"), "\(mended.errors)")
        #expect(report["received"] as? Int == 0 && report["connections"] as? Int == 1 && report["damaged"] as? [String] == ["events"], "\(report)")
        #expect(try Shown.heads(ada.store) == heads)
        try expectSame(ada)

        #expect(hub.end() == 0)
        try Self.flip(hub.store, bytesMin: 64 << 10)
        let told = try Program.run("verify", "--store", hub.store)
        #expect(told.status == 65 && told.errors.contains("verify --repair"), "\(told.errors)")
        let repaired = try Program.run("verify", "--store", hub.store, "--repair", "--json")
        #expect(try repaired.status == 0 && repaired.object()["repaired"] as? Int == 1 && repaired.object()["ok"] as? Bool == true, "\(repaired)")
        #expect(try Program.run("verify", "--store", hub.store, "--projections").status == 0)
        // What has no parity stays, and is told.
        try FileManager.default.removeItem(atPath: hub.store + "/parity")
        try Self.flip(hub.store)
        let left = try Program.run("verify", "--store", hub.store, "--repair", "--json")
        #expect(try left.status == 65 && left.object()["ok"] as? Bool == false && !left.errors.contains("verify --repair"), "\(left)")
    }

    /// Flips a bit in the runs of a closed store of so many bytes or more, where they lie in the file; the free pages of old ones count for nothing.
    private static func flip(_ store: String, bytesMin: Int = 0) throws {
        let url = URL(filePath: store + "/archive")
        var file = try Data(contentsOf: url)
        var place = file.startIndex
        while let magic = file[place...].range(of: Data("CVR1".utf8)) {
            place = magic.upperBound
            if place + 200 < file.endIndex, size(of: file, at: magic.lowerBound) >= bytesMin { file[place + 200] ^= 1 }
        }
        try file.write(to: url)
    }

    /// Of a run, by its header (docs/FORMAT.md, 4.1).
    private static func size(of file: Data, at start: Int) -> Int {
        func number(_ offset: Int) -> Int {
            start + offset + 4 > file.endIndex ? 0 : (0..<4).reduce(0) { $0 | Int(file[start + offset + $1]) << ($1 * 8) }
        }
        let frames = min(number(28), 1000)
        return 56 + frames * 16 + number(16) + number(20) + (0..<frames).reduce(0) { $0 + number(48 + $1 * 16) }
    }

    @Test("Devices hold what the hub has for their users; a second sync costs next to nothing") func fresh() throws {
        for device in [ada, bob] {
            let first = try device.sync(hub)
            #expect(
                Set(first.keys) == [
                    "user", "received", "accepted", "refused", "pending", "failed", "holes", "lost", "bytes_in", "bytes_out", "events", "connections",
                    "seconds",
                ])
            #expect(first["received"] as? Int ?? 0 > 0 && first["holes"] as? Int == 0 && first["connections"] as? Int == 1)
            #expect(first["events"] as? Int == first["received"] as? Int, "\(first)")
            let second = try device.sync(hub)
            let bytes = (second["bytes_in"] as? Int ?? .max / 2) + (second["bytes_out"] as? Int ?? .max / 2)
            #expect(second["received"] as? Int == 0 && bytes > 0 && bytes < 4096, "\(second)")
            try expectSame(device)
        }
        #expect(hub.end() == 0)
    }

    @Test("A first sync that finds no hub leaves a replica that can be written into, and may be another user's while nothing was") func early() throws {
        let device = Device(ada.user, in: folder, "early")
        func sync(_ user: String, _ url: String) throws -> Program.Outcome {
            try Program.run("sync", "--store", device.store, "--server", url, "--user", user, "--json")
        }
        for user in [bob.user, ada.user] { #expect(try sync(user, "ws://127.0.0.1:1/v1/sync").status == 69) }
        let chat = try #require(try device.act("new", "--participant", bob.user, "--title", "before the first sync")["conversation_id"] as? String)
        try device.act("send", chat, "early")
        #expect(try sync(bob.user, "ws://127.0.0.1:1/v1/sync").status == 64)
        #expect(try device.sync(hub)["accepted"] as? Int == 2)
        try bob.sync(hub)
        #expect(try bob.run("timeline", chat).output.contains("early"))
    }

    @Test("I5: two devices write while offline; pending is shown before, and afterwards all three show the same") func offline() throws {
        for device in [ada, bob] { try device.sync(hub) }
        let chat = shared[0]
        let sent = try ada.act("send", String(chat.prefix(13)), "from ada's phone")
        #expect(Set(sent.keys) == ["conversation_id", "message_id", "pending", "outbox"] && sent["pending"] as? Bool == true)
        let message = try #require(sent["message_id"] as? String)
        try ada.act("edit", chat, message, "from ada's phone, edited")
        try bob.act("react", chat, #require(try newest(bob, chat)), "👍")
        #expect(try bob.outbox.first?["emoji"] as? String == "👍" && Program.run("outbox", "--store", bob.store).output.contains("👍"))
        try bob.act("send", chat, "from bob's phone")
        try bob.act("read", shared[1])
        // What is pending has no seq: who names one means a message that is shown with it.
        let timeline = try ada.run("timeline", chat).objects()
        let next = (timeline.compactMap { $0["seq"] as? Int }.max() ?? 0) + 1
        for command in ["delete", "edit", "react"] {
            let outcome = try Program.run([command, "--store", ada.store, "--author", ada.user, chat, "@\(next)"] + (command == "delete" ? [] : ["x"]))
            #expect(outcome.status == 65 && outcome.errors.contains("unknown_message"), "\(command): \(outcome.errors)")
        }
        let new = try #require(try ada.act("new", "--participant", bob.user, "--title", "made offline")["conversation_id"] as? String)
        try ada.act("send", String(new.prefix(13)), "first")
        #expect(try ada.states(chat).last == "pending" && bob.states(chat).last == "pending" && ada.states(new) == ["pending"])
        #expect(try Shown.timeline(ada.store, chat).last?.contains("edited\"") ?? false)
        #expect(try ada.outbox.map { $0["state"] as? String } == ["pending", "pending", "pending", "pending"])
        #expect(try ada.run("timeline", new).status == 0)

        for (device, count) in [(ada, 4), (bob, 3)] {
            let synced = try device.sync(hub)
            #expect(synced["accepted"] as? Int == count && synced["pending"] as? Int == 0)
            #expect(try device.outbox.isEmpty)
        }
        try ada.sync(hub)
        for device in [ada, bob] {
            #expect(try !device.states(chat).contains("pending"))
            #expect(try Shown.timeline(device.store, new) == Shown.timeline(hub.store, new))
            try expectSame(device)
        }
    }

    private func newest(_ device: Device, _ conversation: String) throws -> String? {
        try device.run("timeline", conversation).objects().last { $0["state"] as? String == "complete" }?["message_id"] as? String
    }

    @Test("A device that was restored from a backup is told that what it sends again was accepted, not refused") func restored() throws {
        try ada.sync(hub)
        let sent = try (1...3).map { try #require(try ada.act("send", shared[0], "message \($0)")["message_id"] as? String) }
        let backup = folder["backup"]
        #expect(try Program.run("copy", "--store", ada.store, backup).status == 0)
        // Its counter is given out again by the restored one, for another message.
        try ada.act("send", shared[0], "written after the backup")
        #expect(try ada.sync(hub)["accepted"] as? Int == 4)
        let restored = Device(ada.user, in: folder, "backup")
        try restored.act("send", shared[0], "written after the restoring")
        let report = try restored.sync(hub)
        #expect(report["accepted"] as? Int == 4 && report["refused"] as? Int == 0 && report["failed"] as? Int == 0, "\(report)")
        try expectSame(restored)
        #expect(try sent.allSatisfy { id in try Shown.timeline(hub.store, shared[0]).count { $0.contains(id) } == 1 })
    }

    @Test("What the hub refuses stays, as failed, to be sent again or given up; what was not sent can be changed") func refused() throws {
        for device in [ada, bob] { try device.sync(hub) }
        let chat = try #require(try ada.act("new", "--participant", bob.user, "--title", "t")["conversation_id"] as? String)
        try ada.sync(hub)
        try bob.sync(hub)
        try ada.act("leave", chat, bob.user)
        try ada.sync(hub)
        // Bob does not know yet that he was put out.
        let text = try #require(try bob.act("send", chat, "too lat")["outbox"] as? UInt64)
        #expect(try bob.run("outbox", "--edit", "\(text)", "--text", "too late").status == 0)
        // A mark on what may never be accepted would be lost with it.
        #expect(try bob.run("read", "--author", bob.user, chat).status == 65)
        let retried = try bob.run("outbox", "--retry", "\(text)")
        #expect(retried.status == 64 && retried.errors.contains("is pending: only failed ones can be retried"))
        #expect(try bob.run("outbox", "--retry", "\(text)", "--discard", "\(text)").status == 64 && bob.outbox.count == 1)
        let twice = try bob.run("outbox", "--discard", "0\(text)", "--edit", "\(text)", "--text", "x")
        #expect(twice.status == 64 && twice.output.isEmpty && twice.errors.contains("--discard and --edit both name entry \(text)"), "\(twice.errors)")
        let mixed = try bob.run("outbox", "--lost", "--discard", "\(text)")
        #expect(mixed.status == 64 && mixed.errors.contains("--lost only lists"), "\(mixed.errors)")
        #expect(try bob.outbox.first?["text"] as? String == "too late")
        let report = try bob.sync(hub)
        #expect(report["refused"] as? Int == 1 && report["failed"] as? Int == 1 && report["pending"] as? Int == 0)
        let entry = try #require(try bob.outbox.first)
        #expect(entry["state"] as? String == "failed" && entry["code"] as? String == "not_participant" && entry["text"] as? String == "too late")
        let row = try #require(try bob.run("timeline", chat).objects().last)
        #expect(row["state"] as? String == "failed" && row["code"] as? String == "not_participant" && row["text"] as? String == "too late")
        #expect(try bob.sync(hub)["failed"] as? Int == 1)
        let number = try #require(entry["outbox"] as? UInt64)
        let listed = try Program.run("outbox", "--store", bob.store).output
        #expect(listed.contains("failed: not_participant (the author takes no part in this conversation)"), "\(listed)")
        let changed = try bob.run("outbox", "--edit", "\(number)", "--text", "too late, then")
        #expect(try changed.object()["edited"] as? Int == 1 && changed.errors.contains("--retry \(number)"), "\(changed.errors)")
        let both = try bob.run("outbox", "--discard", "all", "--edit", "\(number)", "--text", "x")
        #expect(both.status == 64 && both.output.isEmpty && both.errors.contains("nothing was done"), "\(both.errors)")
        // He is let in again, and says it.
        try ada.act("join", chat, bob.user)
        try ada.sync(hub)
        #expect(try bob.run("outbox", "--retry", "all").object()["retrying"] as? Int == 1)
        #expect(try bob.sync(hub)["accepted"] as? Int == 1)
        #expect(try Shown.timeline(hub.store, chat).last?.contains("too late, then") ?? false)
        #expect(try bob.outbox.isEmpty && bob.states(chat) == ["complete"])

        // What one was told of is what the hub has: one's own that is pending may be given up.
        let known = try newest(bob, chat)
        let own = try #require(try bob.act("send", chat, "own")["outbox"] as? UInt64)
        #expect(try known != nil && bob.act("read", chat)["message_id"] as? String == known)
        #expect(try bob.run("outbox", "--discard", "\(own)").object()["discarded"] as? Int == 1)
        #expect(try bob.sync(hub)["accepted"] as? Int == 1)

        // Of another's message nobody changes the text.
        try ada.sync(hub)
        try ada.act("edit", chat, #require(try newest(ada, chat)), "mine")
        #expect(try ada.sync(hub)["refused"] as? Int == 1)
        #expect(try ada.outbox.first?["code"] as? String == "not_author")
        #expect(try ada.run("outbox", "--discard", "all").object()["discarded"] as? Int == 1)
        #expect(try ada.outbox.isEmpty)
        #expect(try ada.run("outbox", "--retry", "x").status == 64)
        for arguments in [["--edit", "99", "--text", "x"], ["--retry", "99"], ["--discard", "99"]] {
            let missing = try Program.run(["outbox", "--store", ada.store] + arguments)
            #expect(missing.status == 66 && missing.errors.contains("the outbox has no entry 99"), "\(missing.errors)")
        }
        try ada.sync(hub)
        try bob.sync(hub)
        for device in [ada, bob] { try expectSame(device) }
    }

    @Test("A user without conversations gets an empty store, and may begin one") func stranger() throws {
        let eve = Device("eve", in: folder)
        let report = try eve.sync(hub)
        #expect(report["events"] as? Int == 0 && report["received"] as? Int == 0)
        #expect(try eve.run("lobby", "--user", "eve").output.isEmpty && Shown.heads(eve.store).isEmpty)
        let chat = try #require(try eve.act("new", "--title", "alone")["conversation_id"] as? String)
        try eve.act("send", chat, "hello")
        #expect(try eve.sync(hub)["accepted"] as? Int == 2)
        #expect(try Shown.timeline(eve.store, chat) == Shown.timeline(hub.store, chat))
    }

    @Test("Who joins a conversation whose history begins with the joining is sent nothing from before") func history() throws {
        let eve = Device("eve", in: folder)
        try ada.sync(hub)
        let chat = try #require(try ada.act("new", "--participant", bob.user, "--history", "from-joining")["conversation_id"] as? String)
        try ada.act("send", chat, "earlier-words")
        try ada.act("join", chat, eve.user)
        try ada.act("send", chat, "later-words")
        #expect(try ada.sync(hub)["accepted"] as? Int == 5)
        for _ in 0..<2 { #expect(try eve.sync(hub)["holes"] as? Int == 0) }
        let timeline = try eve.run("timeline", chat).output
        #expect(timeline.contains("later-words") && !timeline.contains("earlier-words"))
        try bob.sync(hub)
        #expect(try bob.run("timeline", chat).output.contains("earlier-words"))
    }

    @Test("What cannot be is told by the exit's code") func refusals() throws {
        try ada.sync(hub)
        func status(_ device: Device, _ url: String) throws -> Int32 {
            try Program.run("sync", "--store", device.store, "--server", url, "--user", device.user).status
        }
        #expect(try status(Device("user-8", in: folder, ada.user), hub.url) == 64)
        #expect(try status(ada, "http://localhost/v1/sync") == 64)
        // Nothing is made before it is clear whose it is, and of which hub.
        #expect(try status(Device("new", in: folder, "new"), "nonsense") == 64 && !FileManager.default.fileExists(atPath: folder["new"]))
        #expect(try status(ada, "ws://127.0.0.1:1/v1/sync") == 69)
        #expect(try status(ada, hub.url + "/none") == 69)
        let plain = folder["plain"]
        #expect(try Program.run("new", "--store", plain, "--author", ada.user).status == 0)
        #expect(try status(Device(ada.user, in: folder, "plain"), hub.url) == 64)
        #expect(try Program.run("outbox", "--store", plain).status == 64)
        #expect(try Program.run("follow", "--store", folder["copy"], "--server", hub.url, "--user", ada.user, "--once").status == 77)
        // Only its hub writes a replica's log.
        let before = try Shown.heads(ada.store)
        #expect(try ada.run("import", "-").status == 69)
        #expect(try Program.run("record", "--store", ada.store, "--author", ada.user, shared[0], input: "data: {}\n\n").status == 69)
        #expect(try Program.run("send", "--store", ada.store, "--author", bob.user, shared[0], "x").status == 65)
        #expect(try Shown.heads(ada.store) == before && ada.outbox.isEmpty)
        let served = try Program.run("serve", "--store", ada.store, "--listen", "127.0.0.1:0", "--insecure-any-user")
        #expect(served.status == 69 && served.errors.contains("user's replica"), "\(served.errors)")
        // Two hubs of one store would give one seq to two events.
        #expect(try status(Device(ada.user, in: folder, "hub"), hub.url) == 75)
        #expect(hub.end() == 0)
        #expect(try status(ada, hub.url) == 69)
    }

    @Test("follow keeps a copy of everything, and goes on where it was") func follow() throws {
        let copy = folder["copy"]
        func follow() throws -> [String: Any] {
            try Program.run("follow", "--store", copy, "--server", hub.url, "--user", "backup", "--once", "--json").object()
        }
        let first = try follow()
        let events = try #require(first["events"] as? Int)
        #expect(try Shown.heads(copy) == Shown.heads(hub.store))
        #expect(try Program.run("stats", "--store", hub.store, "--json").object()["events"] as? Int == events)
        try ada.sync(hub)
        try ada.act("send", shared[0], "one more")
        try ada.sync(hub)
        let second = try follow()
        #expect(second["received"] as? Int == 1 && second["events"] as? Int == events + 1)
        #expect(second["bytes_in"] as? Int ?? .max < 4096)
        // It is for reading, for whom it could be sent too.
        let written = try Program.run("new", "--store", copy, "--author", "backup", "--title", "no")
        #expect(written.status == 69 && written.errors.contains("full copy"), "\(written.errors)")
        #expect(try Shown.heads(copy) == Shown.heads(hub.store))
        #expect(try Program.run("verify", "--store", copy, "--projections").status == 0)
    }

    @Test("A full copy may be served, a user's replica may not, whatever of it can be read") func served() throws {
        let copy = folder["copy"]
        try #require(try Program.run("follow", "--store", copy, "--user", "backup", "--once", "--server", hub.url).status == 0)
        let other = try ServedHub(copy)
        try ada.sync(other)
        try ada.act("send", shared[0], "to the other one")
        #expect(try ada.sync(other)["accepted"] as? Int == 1)
        #expect(other.end() == 0)
        let serve = ["serve", "--store", ada.store, "--listen", "127.0.0.1:0", "--insecure-any-user"]
        for round in 0..<2 {
            let refused = try Program.run(serve)
            #expect(refused.status == 69 && refused.errors.contains("user's replica"), "\(round): \(refused.errors)")
            // The page of the newest commit's tables says that it is another one.
            let file = URL(fileURLWithPath: ada.store + "/sync")
            var bytes = try Data(contentsOf: file)
            for page in stride(from: 8192, to: bytes.count, by: 4096) where bytes[page + 10] == 2 {
                if bytes[page..<page + 4096].range(of: Data("incarnations".utf8)) != nil { bytes[page + 1] ^= 1 }
            }
            try bytes.write(to: file)
        }
    }

    @Test("A command that is given again with its --id changes nothing on a device either") func again() throws {
        try ada.sync(hub)
        let (id, chat) = (UUID().uuidString.lowercased(), UUID().uuidString.lowercased())
        func write(_ text: String) throws -> Program.Outcome {
            try Program.run("send", "--store", ada.store, "--author", ada.user, shared[0], text, "--id", id, "--json")
        }
        func make(_ title: String) throws -> Program.Outcome {
            try Program.run("new", "--store", ada.store, "--author", ada.user, "--title", title, "--id", chat, "--json")
        }
        for round in 0..<3 {
            for outcome in [try write("aa"), try make("X")] {
                let object = try outcome.object()
                #expect(object["duplicate"] as? Bool == (round == 0 ? nil : true) && (object["seq"] != nil) == (round == 2), "\(object)")
            }
            for (outcome, code) in [(try write("bb"), "message_conflict"), (try make("Y"), "conversation_conflict")] {
                #expect(outcome.status == 65 && outcome.errors.contains(code), "\(outcome.errors)")
            }
            if round == 0 { #expect(try ada.outbox.count == 2) }
            if round == 1 { #expect(try ada.sync(hub)["accepted"] as? Int == 2) }
        }
        #expect(try ada.outbox.isEmpty)
        #expect(try ada.run("timeline", shared[0]).objects().count { $0["message_id"] as? String == id } == 1)
    }

    @Test("--follow stays, takes what others push and pushes nothing by itself") func live() throws {
        for device in [ada, bob] { try device.sync(hub) }
        let (process, _, _, files) = try Program.start(["sync", "--store", bob.store, "--server", hub.url, "--user", bob.user, "--follow", "--json"])
        #expect(Program.eventually { try files.text("output").hasSuffix("}\n") })
        try ada.act("send", shared[0], "are you there?")
        try ada.sync(hub)
        #expect(Program.eventually { try Shown.timeline(bob.store, shared[0]).last?.contains("are you there?") ?? false })
        // It is the one who writes; others read beside it.
        #expect(try bob.run("outbox").status == 0 && bob.outbox.isEmpty)
        #expect(try Program.run("send", "--store", bob.store, "--author", bob.user, shared[0], "x").status == 75)
        #expect(Program.interrupt(process) == 0)
        let lines = try files.text("output").split(separator: "\n")
        #expect(lines.count >= 2 && lines.allSatisfy { $0.contains(#""accepted":0"#) }, "\(lines)")
        try expectSame(bob)
    }

    @Test("Certificates to trust that are not there are 66, a file that holds none is 65; both name it") func certificates() throws {
        let none = try folder.write("none.pem", "no certificate")
        for (file, status) in [(folder["absent.pem"], 66), (none, 65)] as [(String, Int32)] {
            for command in ["sync", "follow"] {
                let outcome = try Program.run(
                    command, "--store", folder["r"], "--server", "wss://127.0.0.1:1/v1/sync", "--user", ada.user, "--tls-ca", file)
                #expect(outcome.status == status && outcome.errors.contains(file), "\(command): \(outcome.errors)")
            }
        }
        let plain = try Program.run("sync", "--store", folder["r"], "--server", "ws://127.0.0.1:1/v1/sync", "--user", ada.user, "--tls-ca", none)
        #expect(plain.status == 64 && plain.errors.contains("wss://"))
    }

    @Test("A hub with a key lets in whom a token names, and nobody else: exit 77") func tokens() throws {
        #expect(hub.end() == 0)
        let key = try folder.write("key", Token.secret)
        let hub = try ServedHub(hub.store, ["--jwt-key", key])
        func sync(_ token: String, _ user: String) throws -> Program.Outcome {
            let file = try folder.write("token", token)
            return try Program.run("sync", "--store", folder["r-" + user], "--server", hub.url, "--user", user, "--token-file", file, "--json")
        }
        let good = try sync(Token.of(ada.user), ada.user)
        #expect(try good.status == 0 && good.object()["received"] as? Int ?? 0 > 0, "\(good.errors)")
        for (token, user) in [
            (Token.of(ada.user, secret: "another secret of thirty-two bytes"), ada.user), (Token.of(ada.user), bob.user),
            (Token.of(ada.user, seconds: -600), ada.user),
            ("", ada.user), ("x.y.z", ada.user),
        ] {
            let outcome = try sync(token, user)
            #expect(outcome.status == 77 && outcome.output.isEmpty, "\(user): \(outcome.errors)")
            #expect(outcome.errors.contains("no token was given") == token.isEmpty, "\(user): \(outcome.errors)")
        }
        let none = try Program.run("sync", "--store", folder["r-none"], "--server", hub.url, "--user", ada.user)
        #expect(none.status == 77 && none.errors.contains("no token was given") && none.errors.contains("--token-file"), "\(none.errors)")
        #expect(hub.end() == 0)
    }
}
