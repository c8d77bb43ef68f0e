import ConversationStore
import Foundation
import Replication
import Testing

let ada = UserID("ada")!, bob = UserID("bob")!, eve = UserID("eve")!

func message(_ text: String, in conversation: ConversationID, by author: UserID, id: MessageID = .random()) -> Event {
    Event(conversation: conversation, author: author, content: .messageSent(Event.Message(id: id, role: .user, text: text)))
}

/// A text that cannot be compressed to much less.
func noise(_ count: Int) -> String { String(decoding: (0..<count).map { _ in UInt8.random(in: 33...126) }, as: UTF8.self) }

/// A hub and devices in one directory.
final class World {
    let directory: String
    private(set) var hubStore: ConversationStore
    private(set) var hub: Hub
    private var devices: [Replica] = []
    private var places = 0
    private let change: (inout HubOptions) -> Void
    /// The hub's identity, when another store stands in the place of its own.
    private var rewritten: StoreID?

    /// - Parameter change: of the hub's options, each time it is opened.
    init(_ change: @escaping (inout HubOptions) -> Void = { _ in }) throws {
        self.change = change
        directory = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        hubStore = try ConversationStore.open(at: directory + "/hub")
        var options = HubOptions.anyUser()
        change(&options)
        hub = try Hub(store: hubStore, options: options)
    }

    func device(_ user: UserID) throws -> Replica {
        places += 1
        return try open(directory + "/device-\(places)", user)
    }

    /// - Parameter flushes: `false`: of itself it seals nothing before it is closed, however long that takes.
    func open(_ path: String, _ user: UserID, flushes: Bool = true, isService: Bool = false) throws -> Replica {
        var options = ReplicaOptions()
        options.isService = isService
        options.store.runsInline = !flushes
        let device = try Replica.open(at: path, user: user, options: options)
        devices.append(device)
        return device
    }

    /// A copy of a device's directory, as a backup takes it.
    func copy(_ device: Replica) throws -> String {
        places += 1
        let path = directory + "/device-\(places)"
        try EventStore.copy(from: device.store.log.path, to: path)
        return path
    }

    /// Syncs until nothing must be set right any more, opening the device anew for it.
    func heal(_ device: Replica, scope: Scope = .mine) async throws -> Replica {
        var device = device
        for _ in 0..<5 {
            let session = follow(device, scope: scope)
            try await eventually { session.isSettled || session.end != nil }
            guard case .mustReopen = session.end else {
                if let end = session.end { Issue.record("the session ended: \(end)") }
                session.connection.end()
                try await eventually { session.end != nil }
                return device
            }
            let path = device.store.log.path
            try device.close()
            device = try open(path, device.user)
        }
        Issue.record("it never came right")
        return device
    }

    // The hub's fate.

    func backUpHub() throws { try EventStore.copy(from: directory + "/hub", to: directory + "/backup") }

    /// The backup, in which somebody writes before it is served in the hub's place.
    ///
    /// - Parameter isTold: whether it was told from the hub, as `convstore copy` does.
    func restoreHub(writing events: [Event], isTold: Bool) async throws {
        if isTold { try Hub.endOpenings(inCopyAt: directory + "/backup") }
        let store = try ConversationStore.open(at: directory + "/backup")
        for event in events { _ = try await store.append(event) }
        try store.close()
        try restoreHub()
    }

    func restoreHub() throws {
        try closeHub()
        try FileManager.default.removeItem(atPath: directory + "/hub")
        try FileManager.default.moveItem(atPath: directory + "/backup", toPath: directory + "/hub")
        try openHub()
    }

    /// Puts another history in the place of the hub's, under its identity and with its openings.
    func rewriteHub(_ change: (RecordedEvent) -> RecordedEvent) throws {
        var events: [RecordedEvent] = []
        var secrets: [LogID: [UInt8]] = [:]
        try hubStore.log.replay { event in
            if event.seq == 1 { secrets[event.log] = try hubStore.log.secret(of: event.log) }
            events.append(change(event))
            return true
        }
        let id = rewritten ?? hubStore.log.id
        rewritten = id
        try closeHub()
        let other = directory + "/other"
        let store = try EventStore.open(at: other)
        _ = try store.adoptBlocking(events, secrets: secrets)
        try store.close()
        try FileManager.default.copyItem(atPath: directory + "/hub/sync", toPath: other + "/sync")
        try FileManager.default.removeItem(atPath: directory + "/hub")
        try FileManager.default.moveItem(atPath: other, toPath: directory + "/hub")
        hubStore = try ConversationStore.open(at: directory + "/hub")
        var options = HubOptions.anyUser()
        options.claimedStore = id
        hub = try Hub(store: hubStore, options: options)
    }

    private func closeHub() throws {
        hub.shutdown()
        try hubStore.close()
    }

    private func openHub(log: @escaping @Sendable (String) -> Void = { _ in }) throws {
        hubStore = try ConversationStore.open(at: directory + "/hub")
        var options = HubOptions.anyUser()
        options.log = log
        change(&options)
        hub = try Hub(store: hubStore, options: options)
    }

    /// Does something to the hub's files while it is closed.
    func reopenHub(log: @escaping @Sendable (String) -> Void, after change: (_ path: String) throws -> Void) throws {
        try closeHub()
        try change(directory + "/hub")
        try openHub(log: log)
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

    func follow(_ device: Replica, scope: Scope = .mine) -> Session {
        let session = Session()
        session.connection = InProcess.connect(device, to: hub, scope: scope) { event in session.log.withLock { $0.append(event) } }
        return session
    }

    /// Until all is held and the outbox is answered.
    func sync(_ device: Replica) async throws {
        let session = follow(device)
        try await eventually { session.isSettled || session.end != nil }
        if let end = session.end { Issue.record("the session ended: \(end)") }
        session.connection.end()
        try await eventually { session.end != nil }
        session.connection = nil  // They hold each other.
    }

    func close() throws {
        for device in devices { try device.close() }
        hub.shutdown()
        try hubStore.close()
        try FileManager.default.removeItem(atPath: directory)
    }
}

func withWorld(_ change: @escaping (inout HubOptions) -> Void = { _ in }, _ body: (World) async throws -> Void) async throws {
    let world = try World(change)
    do {
        try await body(world)
    } catch {
        try? world.close()
        throw error
    }
    try world.close()
}

/// Waits until something holds, for as long as a machine busy with other tests may need.
func eventually(
    isolation: isolated (any Actor)? = #isolation, fileID: String = #fileID, line: Int = #line, _ condition: () async throws -> Bool
) async throws {
    for _ in 0..<12_000 {
        if try await condition() { return }
        try await Task.sleep(for: .milliseconds(5))
    }
    Issue.record("it did not happen in a minute: \(fileID):\(line)")
}
