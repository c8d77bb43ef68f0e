import Foundation
import Testing

@testable import EventLog

/// The file `sync`, and rows that screens are shown from, go bad; at the terminal.
@Suite("Damage beside the log") struct DamageTests {
    private let folder: Folder
    private let hub: ServedHub
    private let ada: Device
    private let chat: String

    init() throws {
        folder = try Folder()
        let store = folder["hub"]
        try #require(try Program.run("import", "--store", store, "--keep-going", Lines.fixtures + "/events/seed-2.jsonl.zst").status == 0)
        ada = Device("user-6", in: folder)
        hub = try ServedHub(store)
        try ada.sync(hub)
        let row = try #require(try ada.run("lobby", "--user", ada.user).objects().first)
        chat = try #require(row["conversation_id"] as? String)
        try ada.act("send", chat, "never sent")
    }

    private func overwrite(_ path: String, at range: Range<Int>) throws {
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        bytes.replaceSubrange(range, with: Data(count: range.count))
        try bytes.write(to: URL(fileURLWithPath: path))
        try? FileManager.default.removeItem(atPath: path + "-lock")
    }

    private func problems(_ store: String) throws -> [String] {
        let outcome = try Program.run("verify", "--store", store, "--json")
        #expect(outcome.status == 65)
        return try #require(try outcome.object()["problems"] as? [String])
    }

    @Test("A bit of any key flips: a conversation that the log holds is shown, or it is damage (65), and never not there (66)") func keys() throws {
        let store = folder["few"]
        let lines = (1...3).map { Lines.created($0) + Lines.sent($0, message: 10 + $0, "hello") }.joined()
        try #require(try Program.run("import", "--store", store, "-", input: lines).status == 0)
        let path = store + "/archive"
        let sound = try Data(contentsOf: URL(fileURLWithPath: path))
        let id = Data(try #require(UUID(uuidString: Lines.id(2))).bytes)
        var (from, statuses) = (sound.startIndex, [Int32: Int]())
        while let place = sound.range(of: id, in: from..<sound.endIndex) {
            from = place.upperBound
            var bytes = sound
            bytes[place.upperBound - 1] ^= 1
            try bytes.write(to: URL(fileURLWithPath: path))
            try? FileManager.default.removeItem(atPath: path + "-lock")
            statuses[try Program.run("timeline", "--store", store, Lines.id(2)).status, default: 0] += 1
        }
        #expect(Set(statuses.keys).isSubset(of: [0, 65]) && statuses[65] ?? 0 >= 2, "\(statuses)")
    }

    @Test("A device's damaged sync is told by verify, salvaged by export, and made anew by sync --verify") func device() throws {
        let side = ada.store + "/sync"
        let bytes = try Data(contentsOf: URL(fileURLWithPath: side)), name = Data("scope".utf8)
        // Pages that are free by now may have it too.
        var from = bytes.startIndex
        while let place = bytes.range(of: name, in: from..<bytes.endIndex) {
            from = place.upperBound
            try overwrite(side, at: place.upperBound..<place.upperBound + 4)
        }
        try #require(from > bytes.startIndex)
        for problem in try problems(ada.store) { #expect(problem.hasPrefix("sync: ")) }
        let verified = try Program.run("verify", "--store", ada.store, "--projections")
        #expect(verified.status == 65 && verified.errors.contains("sync --verify") && !verified.errors.contains("rebuild"))
        let salvaged = try Program.run("export", "--salvage", "--store", ada.store)
        #expect(salvaged.status == 65 && salvaged.errors.contains("lost: sync: "), "\(salvaged.errors)")
        #expect(salvaged.lines.last?.contains(#""text":"never sent""#) ?? false && salvaged.lines.last?.contains(#""pending":true}"#) ?? false)
        #expect(salvaged.lines.count { $0.contains(#""pending":true"#) } == 1)

        let synced = try Program.run("sync", "--store", ada.store, "--server", hub.url, "--user", ada.user, "--verify", "--json")
        #expect(synced.status == 0 && synced.errors.contains("/sync is damaged"), "\(synced.errors)")
        #expect(try synced.object()["accepted"] as? Int == 1)
        #expect(try Shown.timeline(hub.store, chat).last?.contains("never sent") ?? false)
        #expect(try Program.run("verify", "--store", ada.store, "--projections").status == 0)
        // The salvaged lines can be read again.
        let other = folder["other"]
        #expect(try Program.run("import", "--store", other, "-", input: salvaged.output).status == 0)
        #expect(try Shown.timeline(other, chat).last?.contains("never sent") ?? false)
    }

    @Test("Of a sync that is cut short all that is lost is told; the device goes on under its user's name") func cut() throws {
        let side = ada.store + "/sync"
        try FileHandle(forWritingTo: URL(fileURLWithPath: side)).truncate(atOffset: 5000)
        for command in ["outbox", "timeline"] {
            let outcome = try command == "outbox" ? ada.run(command) : ada.run(command, chat)
            #expect(outcome.status == 65 && outcome.errors.contains("convstore verify") && outcome.errors.contains("sync --verify"), "\(outcome.errors)")
        }
        #expect(try !problems(ada.store).isEmpty)
        let salvaged = try Program.run("export", "--salvage", "--store", ada.store)
        #expect(salvaged.status == 65 && salvaged.errors.contains("lost: sync: "), "\(salvaged.errors)")
        let synced = try Program.run("sync", "--store", ada.store, "--server", hub.url, "--user", ada.user, "--verify", "--json")
        #expect(synced.status == 0 && synced.errors.contains("lost: sync: "), "\(synced.errors)")
        let report = try synced.object()
        #expect(report["received"] as? Int ?? 99 < 10, "what is held does not come again")
        #expect(report["damaged"] as? [String] == ["sync"])
        #expect((report["unsaved"] as? [String])?.contains { synced.errors.contains("  lost: \($0)") } ?? false, "\(report)")
        #expect(try Program.run("verify", "--store", ada.store, "--projections").status == 0)
        #expect(try Shown.lobby(ada.store, ada.user) == Shown.lobby(hub.store, ada.user))
    }

    @Test("Where neither sync nor key can be read nobody can tell whether it is a replica: that is said, and the key of a copy mends it") func cutAndKeyless()
        throws
    {
        let (side, key) = (ada.store + "/sync", ada.store + "/key")
        try FileHandle(forWritingTo: URL(fileURLWithPath: side)).truncate(atOffset: 5000)
        let sound = try Data(contentsOf: URL(fileURLWithPath: key))
        try overwrite(key, at: 10..<90)
        for verify in [[], ["--verify"]] {
            let refused = try Program.run(["sync", "--store", ada.store, "--server", hub.url, "--user", ada.user] + verify)
            #expect(refused.status == 65 && !refused.errors.contains("is no replica") && !refused.errors.contains("serve"), "\(refused.errors)")
            for words in ["/key", "from a copy", "another directory", "export --salvage"] { #expect(refused.errors.contains(words), "\(refused.errors)") }
        }
        try sound.write(to: URL(fileURLWithPath: key))
        let synced = try Program.run("sync", "--store", ada.store, "--server", hub.url, "--user", ada.user, "--verify", "--json")
        #expect(synced.status == 0, "\(synced.errors)")
        #expect(try Program.run("verify", "--store", ada.store, "--projections").status == 0)
        #expect(try Shown.lobby(ada.store, ada.user) == Shown.lobby(hub.store, ada.user))
    }

    @Test("Without its sync a replica cannot be told from a hub that was moved: it is refused as it lies, and that says what to do") func missing() throws {
        let moved = folder["moved"]
        let lines = try Program.run("export", "--exact", "--store", ada.store).output
        try #require(try Program.run("import", "--exact", "--store", moved, "-", input: lines).status == 0)
        try FileManager.default.removeItem(atPath: ada.store + "/sync")
        for store in [ada.store, moved] {
            let heads = try Shown.heads(store)
            for verify in [[], ["--verify"], []] {
                let refused = try Program.run(["sync", "--store", store, "--server", hub.url, "--user", ada.user] + verify)
                #expect(refused.status == 64, "\(refused.errors)")
                for words in ["lost its file sync", "outbox", "another directory"] { #expect(refused.errors.contains(words), "\(refused.errors)") }
            }
            #expect(try Shown.heads(store) == heads && !FileManager.default.fileExists(atPath: store + "/sync"))
        }
        // A hub's own conversations have secrets of its own.
        #expect(hub.end() == 0)
        let refused = try Program.run("sync", "--store", hub.store, "--server", hub.url, "--user", ada.user)
        #expect(refused.status == 64 && !refused.errors.contains("lost its file"), "\(refused.errors)")
    }

    @Test("A head that speaks against the hub is mended if it contradicts its own events; a hub that gives a wrong one is refused all the same (65)")
    func contradiction() throws {
        try ada.sync(hub)
        func forge(_ store: String) throws { try EventStore.forgeHead(at: store, of: .conversation(#require(ConversationID(chat)))) }
        func sync(_ hub: ServedHub) throws -> Program.Outcome {
            try Program.run("sync", "--store", ada.store, "--server", hub.url, "--user", ada.user, "--json")
        }
        /// What is written at the hub comes to the device with the hub's head.
        func write(_ text: String, to served: ServedHub, forging: Bool) throws -> ServedHub {
            #expect(served.end() == 0)
            try #require(try Program.run("send", "--store", hub.store, "--author", ada.user, chat, text).status == 0)
            if forging { try forge(hub.store) }
            return try ServedHub(hub.store)
        }
        try forge(ada.store)
        let honest = try write("behind the forged head", to: hub, forging: false)
        let mended = try sync(honest)
        #expect(mended.status == 0 && mended.errors.contains("is damaged") && mended.errors.contains("do not lead to its head"), "\(mended.errors)")
        #expect(try Program.run("verify", "--store", ada.store, "--projections").status == 0)
        #expect(try Shown.timeline(ada.store, chat) == Shown.timeline(hub.store, chat))

        let liar = try write("under a forged head", to: honest, forging: true)
        for isForged in [false, true] {
            if isForged { try forge(ada.store) }
            let refused = try sync(liar)
            #expect(refused.status == 65 && refused.errors.contains("the hub's head of \(chat)"), "\(refused.errors)")
            #expect(refused.errors.contains("is damaged") == isForged, "\(refused.errors)")
        }
    }

    @Test("While a replica is written anew nothing is erased in the one that goes: what was, would come back (75)") func replaced() throws {
        let replacement = try StoreReplacement(of: ada.store)
        func erase() throws -> Program.Outcome { try Program.run("erase", "--store", ada.store, chat, "2") }
        for outcome in [try erase(), try Program.run("rebuild", "--store", ada.store)] {
            #expect(outcome.status == 75 && outcome.errors.contains("set right"), "\(outcome.errors)")
        }
        #expect(try Program.run("verify", "--store", ada.store).status == 0)
        replacement.end()
        #expect(try erase().status == 0)
    }

    @Test("A hub's damaged sync is told by verify and made anew by serve; devices go on") func served() throws {
        #expect(hub.end() == 0)
        try FileHandle(forWritingTo: URL(fileURLWithPath: hub.store + "/sync")).truncate(atOffset: 9000)
        #expect(try !problems(hub.store).isEmpty)
        #expect(try Program.run("lobby", "--store", hub.store, "--user", ada.user).errors.contains("convstore serve"))
        // A hub is no device, whatever its user is called.
        let taken = try Program.run("sync", "--store", hub.store, "--server", hub.url, "--user", ada.user, "--verify")
        #expect(taken.status == 64, "\(taken.errors)")
        let again = try ServedHub(hub.store)
        let synced = try Program.run("sync", "--store", ada.store, "--server", again.url, "--user", ada.user, "--json").object()
        #expect(synced["accepted"] as? Int == 1 && synced["received"] as? Int ?? 99 < 10)
        #expect(again.end() == 0)
        #expect(try Program.run("verify", "--store", hub.store).status == 0)
    }

    @Test("Damaged rows of what is shown: what reads them names the rebuild, verify finds them, sync --verify rebuilds") func rows() throws {
        let count = try EventStore.damageRows(at: ada.store, of: "conversations")
        let lobby = try ada.run("lobby", "--user", ada.user)
        #expect(lobby.status == 65 && lobby.errors.contains("convstore rebuild"), "\(lobby.errors)")
        #expect(try problems(ada.store) == ["the projection conversations: rows whose checksums do not match: \(count); run `convstore rebuild`"])
        #expect(try Program.run("verify", "--store", ada.store).errors.contains("convstore rebuild"))
        let synced = try Program.run("sync", "--store", ada.store, "--server", hub.url, "--user", ada.user, "--verify", "--json")
        #expect(synced.status == 0 && synced.errors.contains("built anew"), "\(synced.errors)")
        #expect(try synced.object()["accepted"] as? Int == 1 && synced.object()["received"] as? Int ?? 99 < 3)
        #expect(try Program.run("verify", "--store", ada.store, "--projections").status == 0)
        #expect(try Shown.lobby(ada.store, ada.user) == Shown.lobby(hub.store, ada.user))
    }
}

extension UUID {
    fileprivate var bytes: [UInt8] { withUnsafeBytes(of: uuid) { Array($0) } }
}
