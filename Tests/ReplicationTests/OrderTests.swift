import ConversationStore
import Foundation
@testable import Replication
import Testing

/// In which order a new device is filled.
@Suite struct OrderTests {
    @Test func theNewestConversationsComeFirst() async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for index in 0..<200 {
                chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: [bob]))
                // Of somebody else: no run can go to bob as it lies.
                let other = try await world.hubStore.createConversation(.direct, author: ada, participants: [eve])
                for number in 0..<3 {
                    try await world.hubStore.send("\(index) \(number)", to: chats[index], from: ada)
                    try await world.hubStore.send("not for bob", to: other, from: ada)
                }
                if index % 50 == 49 { try world.hubStore.log.flush() }
            }
            let device = try world.device(bob)
            let order = Monitor<[LogID]>([])
            let replica = Monitor<ReplicaConnection?>(nil)
            let hub = world.hub.connect(
                send: { message in
                    var logs: [LogID] = []
                    switch try? Frame(decoding: message) {
                    case .segment(let segment)?: logs = segment.logs.map(\.log)
                    case .events(let events)?: logs = events.logs.map(\.log)
                    default: break
                    }
                    order.withLock { [logs] known in known += logs.filter { !known.contains($0) } }
                    replica.withLock { $0 }?.receive(message)
                }, close: { _ in })
            let isSettled = Monitor(false)
            let connection = device.connect(token: "", send: { hub.receive($0) }, close: { _ in hub.disconnected() }) { event in
                if case .settled = event { isSettled.withLock { $0 = true } }
            }
            replica.withLock { $0 = connection }
            connection.start()
            try await eventually { isSettled.withLock { $0 } }
            let came = order.withLock { $0 }
            #expect(came.count == 200)
            // The first screen, then the newest lot.
            #expect(Set(came.prefix(64)) == Set(chats.suffix(64).map { LogID.conversation($0) }))
            connection.end()
        }
    }
}
