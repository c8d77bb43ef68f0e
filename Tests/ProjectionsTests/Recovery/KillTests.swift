import ConversationStore
import Foundation
import Testing

@testable import TalkWriter
import StoreTesting

@Suite("Killed while it writes") struct KillTests {
    @Test(
        "Saved rows are exactly the fold to the archived seq: kill -9 at random while flushes and appends go on (CONVSTORE_KILLS)",
        .tags(.recovery), arguments: [false, true])
    func kills(_ isRebuilding: Bool) throws {
        let kills = effort("CONVSTORE_KILLS", share: 14) / 2
        var random = SeededGenerator(seed: UInt64(kills))
        var scratch = try Scratch()
        var events: Position = 0
        for kill in 0..<kills {
            // The fold anew costs as much as there is: a new store every now and then.
            if kill % 25 == 24 { scratch = try Scratch() }
            var arguments = [scratch.store, "\(kill)", "\(random.element([64 << 10, 128 << 10]))"]
            if isRebuilding { arguments.append("rebuild") }
            let child = try ChildProcess("TalkWriter", arguments)
            guard child.isReady() else {
                Issue.record("kill \(kill): the writer ended by itself with \(child.status)")
                return
            }
            usleep(UInt32(random.below(60_000)))
            child.kill()
            let reader = try scratch.open(.readOnly, projections: [KindCounts.self])
            events = max(events, reader.log.lastPosition)
            for name in reader.projectionNames { #expect(try reader.isFold(name), "\(name) after kill \(kill)") }
            // Chunks counted twice would be in no digest if both folds did it: so they are counted here too.
            let recount = Recount(try reader.events())
            for (id, conversation) in recount.conversations {
                let page = try #require(try reader.timeline(of: id, limit: .max))
                #expect(page.messages.count == conversation.messages.count)
                #expect(zip(page.messages, conversation.messages).allSatisfy { $0.isLike($1) }, "\(id) after kill \(kill)")
                for user in conversation.people { #expect(try reader.lobbyRow(of: id, for: user)?.unread == conversation.unread(user)) }
            }
            let digest = try reader.digest()
            try reader.close()
            if kill % 5 == 0 {
                let store = try scratch.open(journal: 64 << 10, projections: [KindCounts.self])
                #expect(try store.digest() == digest)
                try store.close()
            }
        }
        #expect(events > 100)
    }

    @Test(
        "A reader beside a writer that flushes, rebuilds and appends shows the fold of what was there when it opened", .tags(.recovery),
        arguments: [false, true])
    func beside(_ isRebuilding: Bool) throws {
        let scratch = try Scratch()
        let child = try ChildProcess("TalkWriter", [scratch.store, "1", "65536"] + (isRebuilding ? ["rebuild"] : []))
        defer { child.kill() }
        #expect(child.isReady())
        for round in 0..<effort("CONVSTORE_READERS", share: 6) {
            #expect(child.isRunning)
            let reader = try scratch.open(.readOnly, projections: [KindCounts.self])
            let position = reader.log.lastPosition
            usleep(30_000)
            for name in reader.projectionNames { #expect(try reader.isFold(name), "\(name), round \(round)") }
            let recount = Recount(try reader.events())
            for (id, conversation) in recount.conversations {
                let page = try #require(try reader.timeline(of: id, limit: .max))
                #expect(page.seq == conversation.seq)
                #expect(page.messages.count == conversation.messages.count)
                #expect(zip(page.messages, conversation.messages).allSatisfy { $0.isLike($1) }, "\(id), round \(round)")
            }
            #expect(reader.log.lastPosition == position)
            try reader.close()
        }
    }
}
