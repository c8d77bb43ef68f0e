import EventLog
import Foundation
import Interchange
import Testing

@Suite("Dialogue files") struct DialogueFileTests {
    private func items(_ path: String) throws -> [DialogueFile.Item] {
        var file = try DialogueFile(InputFile.open(path))
        var items: [DialogueFile.Item] = []
        while let item = try file.nextItem() { items.append(item) }
        return items
    }

    private func items(of text: String) throws -> [DialogueFile.Item] {
        let scratch = try Scratch()
        return try items(scratch.file("a.jsonl", text.utf8))
    }

    @Test(
        "real files become one message a row and one creation a conversation",
        arguments: [
            ("llm-trials-a", 60, 1200), ("taskmaster4", 3710, 13_915), ("topical-chat-a", 539, 11_760), ("sgd-dev", 2098, 38_768),
            ("irc-ubuntu-train.slice", 7, 9894), ("realpersonachat-a.slice", 173, 5203),
        ]) func realFiles(_ name: String, _ conversations: Int, _ messages: Int) throws
    {
        var file = try DialogueFile(InputFile.open(Fixtures.path("dialogue/\(name).jsonl.zst")))
        var created = 0
        var sent = 0
        var line = 0
        var people: Set<UserID> = []
        var ids: Set<MessageID> = []
        while let item = try file.nextItem() {
            guard case .event(let event, _) = item.outcome else { Issue.record("line \(item.line) is refused"); continue }
            #expect(people.contains(event.author) || event.content.kind == .conversationCreated)
            switch event.content {
            case .conversationCreated(_, _, let participants):
                created += 1
                people = Set(participants)
                ids = []
                #expect(item.line == line + 1)
                #expect(participants.first == event.author && people.count == participants.count)
            case .messageSent(let message):
                sent += 1
                line += 1
                #expect(item.line == line && ids.insert(message.id).inserted)
                if let target = message.replyTo { #expect(ids.contains(target)) }
            default: Issue.record("another kind")
            }
        }
        #expect(created == conversations)
        #expect(sent == messages)
    }

    @Test("all of the data is read", .enabled(if: ProcessInfo.processInfo.environment["CONVSTORE_DATA"] != nil)) func allData() throws {
        let folder = RecordedStreamTests.folder.appending(path: "dialogue")
        var totals = (conversations: 0, messages: 0, refused: 0, most: 0)
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path(percentEncoded: false)) {
            var file = try DialogueFile(InputFile.open(folder.appending(path: name).path(percentEncoded: false)))
            while let item = try file.nextItem() {
                switch item.outcome {
                case .event(let event, _):
                    if case .conversationCreated(_, _, let people) = event.content {
                        totals.conversations += 1
                        totals.most = max(totals.most, people.count)
                    } else {
                        totals.messages += 1
                    }
                case .refused: totals.refused += 1
                }
            }
        }
        print("dialogue data: \(totals)")
        #expect(totals.refused == 0 && totals.most <= EventLimits.participantsMax)
    }

    @Test("names, roles, kinds, times and ids follow the rules") func rules() throws {
        let found = try items(
            of: #"""
                {"conv":"c","turn":0,"speaker":"ann","text":"","time":"NaT"}
                {"conv":"c","turn":1,"speaker":"","kind":"system","text":"joined","time":"2004-12-25T09:14:00.1239"}

                {"conv":"c","turn":2,"speaker":"bob","text":"hi","time":null,"reply_to":0}
                {"conv":"d","turn":0,"speaker":"user","text":"q"}
                {"conv":"d","turn":1,"speaker":"SYSTEM","text":"a","time":7}
                {"conv":"e","turn":0,"speaker":"ann","text":"q","time":"2004-12-25T09:14:00+01:00"}
                """#)
        #expect(found.map(\.line) == [1, 1, 2, 4, 5, 5, 6, 7, 7])
        let events = found.compactMap { if case .event(let event, let at) = $0.outcome { (event, at) } else { nil } }
        let (ann, bob, system) = (UserID("ann")!, UserID("bob")!, UserID("system")!)
        #expect(events[0].0.content == .conversationCreated(kind: .group, title: "c", participants: [ann, system, bob]))
        #expect(events[0].0.author == ann)
        #expect(
            events.map(\.1) == [
                1_103_966_040_123, 1_103_966_040_123, 1_103_966_040_123, 1_103_966_040_123, 0, 0, 0, 1_103_962_440_000, 1_103_962_440_000,
            ])
        let id = { (text: String) in Array(text.utf8).withUnsafeBytes { ContentDigest(of: $0) } }
        #expect(events[0].0.conversation == id("c").identifier())
        #expect(
            events[2].0
                == Event(
                    conversation: id("c").identifier(), author: system,
                    content: .messageSent(.init(id: id("c\u{0}1").identifier(), role: .system, text: "joined"))))
        #expect(
            events[3].0.content
                == .messageSent(.init(id: id("c\u{0}2").identifier(), role: .user, text: "hi", replyTo: id("c\u{0}0").identifier())))
        #expect(
            events[4].0.content == .conversationCreated(kind: .assistant, title: "d", participants: [UserID("user")!, UserID("SYSTEM")!]))
        #expect(events[6].0.content == .messageSent(.init(id: id("d\u{0}1").identifier(), role: .assistant, text: "a")))
        #expect(events[7].0.content == .conversationCreated(kind: .direct, title: "e", participants: [ann]))
    }

    @Test("bad rows are refused at their line, and the conversation goes on around them") func badRows() throws {
        let found = try items(
            of: #"""
                nothing
                {"conv":"c","turn":0,"speaker":"ann","text":"x"}
                {"conv":"c","turn":1.0,"speaker":"ann","text":"x"}
                {"conv":"c","turn":1,"speaker":"","text":"x"}
                {"conv":7}
                {"conv":"c","turn":2,"speaker":"bob"}
                {"conv":"c","turn":3,"speaker":"bob","text":"\ud800"}
                {"conv":"c","turn":4,"speaker":"bob","text":"x","reply_to":"0"}
                {"conv":"c","turn":5,"speaker":"bob","text":"x"}
                [
                """#)
        #expect(found.map(\.line) == [1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10])
        let details = found.map {
            if case .refused(let refusal, let log) = $0.outcome { refusal.detail + (log == nil ? "" : "+") } else { "event" }
        }
        #expect(details == ["JSON", "event", "event", "turn+", "speaker+", "conv", "text+", "text+", "reply_to+", "event", "JSON"])
    }
}
