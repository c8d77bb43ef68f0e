import ConversationStore
import Foundation
import Replication
import Testing

let ada = UserID("ada")!, bob = UserID("bob")!, eve = UserID("eve")!

func message(_ text: String, in conversation: ConversationID, by author: UserID, id: MessageID = .random()) -> Event {
    Event(conversation: conversation, author: author, content: .messageSent(Event.Message(id: id, role: .user, text: text)))
}

/// A hub and devices in one directory.
final class World {
    let directory: String
    let hubStore: ConversationStore
    let hub: Hub
    private var devices: [Replica] = []

    init() throws {
        directory = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        hubStore = try ConversationStore.open(at: directory + "/hub")
        hub = try Hub(store: hubStore, options: .anyUser())
    }

    func device(_ user: UserID) throws -> Replica {
        let device = try Replica.open(at: directory + "/device-\(devices.count)", user: user)
        devices.append(device)
        return device
    }

    /// What a session said so far.
    final class Session: Sendable {
        let log = Monitor<[ReplicaEvent]>([])
        nonisolated(unsafe) var connection: ReplicaConnection!
        var isSettled: Bool { log.withLock { $0.contains { if case .settled = $0 { true } else { false } } } }
        var end: ReplicaEvent? {
            log.withLock { events in
                events.first {
                    switch $0 {
                    case .ended, .failed, .mustReopen: true
                    default: false
                    }
                }
            }
        }
    }

    func follow(_ device: Replica) -> Session {
        let session = Session()
        session.connection = InProcess.connect(device, to: hub) { event in session.log.withLock { $0.append(event) } }
        return session
    }

    /// Until all is held and the outbox is answered.
    func sync(_ device: Replica) async throws {
        let session = follow(device)
        try await eventually { session.isSettled || session.end != nil }
        if let end = session.end { Issue.record("the session ended: \(end)") }
        session.connection.end()
        try await eventually { session.end != nil }
    }

    func close() throws {
        for device in devices { try device.close() }
        hub.shutdown()
        try hubStore.close()
        try FileManager.default.removeItem(atPath: directory)
    }
}

func withWorld(_ body: (World) async throws -> Void) async throws {
    let world = try World()
    do {
        try await body(world)
    } catch {
        try? world.close()
        throw error
    }
    try world.close()
}

func eventually(seconds: Int = 20, _ condition: () throws -> Bool) async throws {
    for _ in 0..<seconds * 200 {
        if try condition() { return }
        try await Task.sleep(for: .milliseconds(5))
    }
    Issue.record("it did not happen in \(seconds) s")
}
