import ConversationStore
import Foundation
import Synchronization
import Testing

@testable import TalkWriter

/// A folder that goes with the test.
final class Scratch: Sendable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.appending(path: "projections-tests-\(UUID().uuidString)").path(percentEncoded: false)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    var store: String { path + "/store" }

    func open(
        _ access: StoreOptions.Access = .readWrite, journal: Int = 256 << 10, projections: [any Projection.Type] = [],
        durability: Durability = .full, progress: (@Sendable (UInt64, UInt64) throws -> Void)? = nil
    ) throws -> ConversationStore {
        try ConversationStore.open(
            at: store,
            options: ConversationStoreOptions(
                access: access, durability: durability, journalBytesMax: journal, projections: projections, rebuildProgress: progress))
    }
}

extension ConversationStore {
    /// Appends events, all of which must be accepted, in batches.
    func take(_ events: [Event], batch: Int = 100) throws {
        for start in stride(from: 0, to: events.count, by: batch) {
            for (place, outcome) in try log.appendBlocking(events[start..<min(start + batch, events.count)].map { Submission($0) }).enumerated() {
                guard case .accepted = outcome else {
                    Issue.record("\(events[start + place]): \(outcome)")
                    return
                }
            }
        }
    }

    func events() throws -> [RecordedEvent] {
        var result: [RecordedEvent] = []
        try log.replay {
            result.append($0)
            return true
        }
        return result
    }
}

/// How much of what takes long is done: the share that every run does, or what the environment asks for.
func effort(_ name: String, share: Int) -> Int { ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? share }

extension Tag {
    @Tag static var recovery: Self
    @Tag static var slow: Self
}

/// Something that tasks tell each other once.
final class Flag: Sendable {
    private let state = Atomic(false)
    var isUp: Bool { state.load(ordering: .relaxed) }
    func raise() { state.store(true, ordering: .relaxed) }
}
