import EventLog
import Foundation
import Projections
import Testing

@Suite("convstore rebuild, verify --projections and bench read") struct ProjectionTests {
    private let folder: Folder
    private let store: String

    init() throws {
        folder = try Folder()
        store = folder["store"]
        try Program.run("import", "--store", store, "--keep-going", Lines.fixtures + "/events/seed-1.jsonl.zst")
    }

    @Test("I4: a rebuild gives the same digest, and --check finds no difference and changes nothing")
    func rebuild() throws {
        let check = try Program.run("rebuild", "--store", store, "--check", "--json")
        #expect(check.status == 0)
        #expect(try Set(check.object().keys) == ["projection", "ok", "digest", "seconds"])
        #expect(try check.object()["ok"] as? Bool == true)
        let rebuilt = try Program.run("rebuild", "--store", store, "--json").object()
        #expect(Set(rebuilt.keys) == ["projection", "events", "digest", "seconds"])
        #expect(rebuilt["projection"] as? String == "conversations")
        #expect(try rebuilt["digest"] as? String == check.object()["digest"] as? String)
        #expect(try Program.run("rebuild", "--store", store, "--check").status == 0)
        #expect(try Program.run("rebuild", "--store", folder["none"], "--check").status == 66)
        #expect(try Program.run("rebuild", "--store", folder["none"]).status == 66)
    }

    @Test("verify --projections adds to verify's report, in the same fields")
    func verify() throws {
        let plain = try Program.run("verify", "--store", store, "--json").object()
        let full = try Program.run("verify", "--store", store, "--projections", "--json").object()
        #expect(full as NSDictionary == plain as NSDictionary)
    }

    /// Takes the real projection's place and folds the first event only.
    private final class Idle: Projection {
        static let name = "conversations"
        static let version = Conversations.version
        private let real: Conversations
        init(tables: inout ProjectionTables) { real = Conversations(tables: &tables) }
        func apply(_ event: RecordedEvent) throws { if event.position == 1 { try real.apply(event) } }
    }

    @Test("I4: a projection that is not the fold is a problem and exit 65, and a rebuild mends it")
    func wrong() throws {
        let wrong = folder["wrong"]
        var options = StoreOptions()
        options.folds = [ProjectionFold<Idle>()]
        let (chat, ada) = (ConversationID.random(), UserID("ada")!)
        let contents: [Event.Content] = [
            .conversationCreated(kind: .group, title: nil, participants: [ada]), .messageSent(.init(id: .random(), role: .user, text: "hi")),
        ]
        let events = try EventStore.open(at: wrong, options: options)
        _ = try events.appendBlocking(contents.map { Submission(Event(conversation: chat, author: ada, content: $0)) })
        try events.close()

        #expect(try Program.run("verify", "--store", wrong).status == 0)
        let verified = try Program.run("verify", "--store", wrong, "--projections", "--json")
        #expect(verified.status == 65)
        #expect(try verified.object()["ok"] as? Bool == false)
        #expect(try #require(verified.object()["problems"] as? [String]).first?.contains("conversations") == true)
        #expect(verified.errors.contains("convstore rebuild"))
        let checked = try Program.run("rebuild", "--store", wrong, "--check", "--json")
        #expect(checked.status == 65)
        #expect(try checked.object()["ok"] as? Bool == false)
        #expect(!(try Program.run("lobby", "--store", wrong, "--user", "ada", "--json").output.contains("hi")))

        #expect(try Program.run("rebuild", "--store", wrong).status == 0)
        #expect(try Program.run("verify", "--store", wrong, "--projections").status == 0)
        #expect(try Program.run("lobby", "--store", wrong, "--user", "ada", "--json").output.contains("hi"))
    }

    @Test("bench read tells rates and percentiles of each kind", arguments: ["timeline", "lobby", "message", "window"])
    func benchRead(kind: String) throws {
        let base = ["bench", "read", "--store", store, "--kind", kind, "--seconds", "0.1", "--json"]
        for more in [[], ["--recent", "--threads", "2"]] {
            let answer = try Program.run(base + more).object()
            #expect(Set(answer.keys).isSuperset(of: ["p50_us", "p99_us", "reads_per_second", "reads"]))
            #expect(try #require(answer["reads"] as? Int) > 0)
            #expect(try #require(answer["values_per_read"] as? Double) > 0)
        }
    }

    @Test("bench append keeps projections, or does without")
    func benchAppend() throws {
        let file = try folder.write("events.jsonl", Lines.created(1) + Lines.sent(1, message: 2, "hi"))
        for choice in ["on", "off"] {
            let new = folder[choice]
            #expect(try Program.run("bench", "append", "--input", file, "--store", new, "--projections", choice, "--json").object()["events"] as? Int == 2)
            #expect(try Program.run("timeline", "--store", new, Lines.id(1), "--json").lines.count == 1)
        }
        #expect(try Program.run("bench", "append", "--input", file, "--projections", "maybe").status == 64)
    }
}
