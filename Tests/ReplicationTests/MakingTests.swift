import ConversationStore
import StoreTesting
import Testing

@testable import EventLog
@testable import Replication

@Suite("A replica that is being made") struct MakingTests {
    /// Answers whether it was made before the disk crashed.
    private func make(_ path: String, crashingAt call: Int, _ keeping: SimulatedDisk.Keeping, _ options: ReplicaOptions) throws -> Bool {
        let disk = SimulatedDisk(Directory.parent(path))
        defer { disk.remove() }
        disk.crash(atCall: call, keeping: keeping)
        do {
            let device = try Replica.open(at: path, user: ada, options: options)
            device.abandon()
        } catch {
            #expect(disk.hasCrashed, "\(error)")
        }
        return !disk.hasCrashed
    }

    @Test("A crash at any call leaves a replica or nothing: no store that is not marked as one", arguments: [.nothing, .everything] as [SimulatedDisk.Keeping])
    func crashes(_ keeping: SimulatedDisk.Keeping) throws {
        var options = ReplicaOptions()
        options.store.runsInline = true
        var (call, isMade) = (0, false)
        while !isMade {
            call += 1
            let place = MemoryDirectory()
            let path = place.path + "/device"
            isMade = try make(path, crashingAt: call, keeping, options)
            #expect(try !StoreFiles.exists(path) || Replica.isReplica(at: path), "call \(call)")
            let device = try Replica.open(at: path, user: ada, options: options)
            try device.append(Event(conversation: .random(), author: ada, content: .conversationCreated(kind: .group, title: nil, participants: [])))
            try device.close()
            #expect(try EventStore.verify(at: path).problems == [], "call \(call)")
            #expect(try Directory.names(place.path) == ["device"], "call \(call)")
        }
        #expect(call > 10)
    }
}
