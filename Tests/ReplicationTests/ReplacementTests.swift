import ConversationStore
import EventLog
import Foundation
import StoreTesting
import Testing

@testable import Replication

/// A damaged replica that is written anew, and others who want to write into it meanwhile.
@Suite("A replica that is set right") struct ReplacementTests {
    private func device(_ world: World, messages: Int) async throws -> (path: String, chat: ConversationID) {
        let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
        for index in 0..<messages { try await world.hubStore.send("message \(index)", to: chat, from: bob) }
        let device = try world.device(ada)
        try await world.sync(device)
        try device.append(message("mine", in: chat, by: ada))
        let path = device.store.log.path
        try device.close()
        return (path, chat)
    }

    private func isBusy(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return false
        } catch { return (error as? EventLogError)?.code == .busy }
    }

    @Test("Nobody else opens it for writing, nor sets it right; a lock that a crash left is none") func locked() async throws {
        try await withWorld { world in
            let (path, _) = try await device(world, messages: 3)
            let replacement = try StoreReplacement(of: path)
            #expect(isBusy { try Replica.open(at: path, user: nil).close() })
            #expect(isBusy { _ = try Replica.salvage(at: path) })
            #expect(isBusy { _ = try StoreReplacement(of: path + "/") })
            replacement.end()
            #expect(!FileManager.default.fileExists(atPath: path + ".replacing"))
            #expect(FileManager.default.createFile(atPath: path + ".replacing", contents: nil))
            try Replica.open(at: path, user: nil).close()
            _ = try Replica.salvage(at: path)
            #expect(!FileManager.default.fileExists(atPath: path + ".replacing"))
        }
    }

    @Test("Another store that has the name of one that was to be replaced is left alone", arguments: [false, true])
    func anothers(_ isGone: Bool) async throws {
        try await withWorld { world in
            let (path, _) = try await device(world, messages: 3)
            let other = try ConversationStore.open(at: path + ".rewound")
            let hub = try Hub(store: other, options: .anyUser())
            hub.shutdown()
            try other.close()
            if isGone { try FileManager.default.removeItem(atPath: path) } else { try world.open(path, ada).close() }
            try Replica.recover(at: path)
            #expect(FileManager.default.fileExists(atPath: path) == !isGone)
            var options = ConversationStoreOptions()
            options.access = .existing
            try ConversationStore.open(at: path + ".rewound", options: options).close()
        }
    }

    @Test("Whoever comes beside it is told to come again, or is in time: what they write is there afterwards, and it is set right all the same")
    func beside() async throws {
        try await withWorld { world in
            let (path, chat) = try await device(world, messages: 60)
            let written = Monitor<(isDone: Bool, hasEnded: Bool, texts: [String], failures: [String])>((false, false, ["mine"], []))
            WorkerThread.start {
                for number in 0..<20_000 {
                    if written.withLock({ $0.isDone }) { break }
                    do {
                        let device = try Replica.open(at: path, user: ada)
                        try device.append(message("beside \(number)", in: chat, by: ada))
                        written.withLock { $0.texts.append("beside \(number)") }
                        try device.close()
                    } catch let error as EventLogError where error.code == .busy {
                    } catch {
                        written.withLock { $0.failures.append("\(error)") }
                    }
                    usleep(500)
                }
                written.withLock { $0.hasEnded = true }
            }
            var salvaged = 0
            // On a machine that is busy elsewhere one of the two may not come in for long.
            for _ in 0..<4000 where salvaged < 30 || written.withLock({ $0.texts.count < 2 }) {
                do {
                    let (saved, _, lost) = try Replica.salvage(at: path)
                    #expect(saved == 61 && lost.isEmpty)
                    salvaged += 1
                } catch let error as EventLogError where error.code == .busy {}
                usleep(3000)
            }
            written.withLock { $0.isDone = true }
            try await eventually { written.withLock { $0.hasEnded } }
            let (_, _, texts, failures) = written.withLock { $0 }
            #expect(failures.isEmpty && salvaged > 0, "\(salvaged): \(failures.prefix(3))")
            let device = try world.open(path, ada)
            let held = device.outbox.compactMap { entry -> String? in
                guard case .messageSent(let message) = entry.event.content else { return nil }
                return message.text
            }
            #expect(held == texts && texts.count > 1)
            #expect(!FileManager.default.fileExists(atPath: path + ".rewinding") && !FileManager.default.fileExists(atPath: path + ".rewound"))
            try await world.sync(device)
            try device.close()
        }
    }

    @Test("a store that was opened just before another one took its place is not written into (busy)") func replacedWhileOpened() async throws {
        try await withWorld { world in
            let device = try world.device(ada)
            try StoreReplacement.checkNone(of: device.store.log)
            let path = device.store.log.path
            try FileManager.default.moveItem(atPath: path, toPath: path + ".rewound")
            #expect { try StoreReplacement.checkNone(of: device.store.log) } throws: { ($0 as? EventLogError)?.code == .busy }
            try FileManager.default.copyItem(atPath: path + ".rewound", toPath: path)
            #expect { try StoreReplacement.checkNone(of: device.store.log) } throws: { ($0 as? EventLogError)?.code == .busy }
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.moveItem(atPath: path + ".rewound", toPath: path)
            try StoreReplacement.checkNone(of: device.store.log)
        }
    }

    @Test("it never lacks a name while another takes its place, where names can be exchanged") func exchanged() async throws {
        try await withWorld { world in
            let (path, _) = try await device(world, messages: 3)
            let isDone = Monitor(false), missing = Monitor(0), looked = Monitor(0)
            let thread = Thread {
                while !isDone.withLock({ $0 }) {
                    let exists = FileManager.default.fileExists(atPath: path)
                    looked.withLock { $0 += 1 }
                    if !exists { missing.withLock { $0 += 1 } }
                }
            }
            thread.start()
            for _ in 0..<40 { _ = try Replica.salvage(at: path) }
            isDone.withLock { $0 = true }
            #expect(looked.withLock { $0 } > 100 && missing.withLock { $0 } == 0)
            #expect(try world.open(path, ada).outbox.count == 1)
            let names = try FileManager.default.contentsOfDirectory(atPath: world.directory)
            #expect(names.allSatisfy { !$0.hasSuffix(".rewinding") && !$0.hasSuffix(".rewound") })
        }
    }

    @Test("one that a killed process left without its name gets it back, and is not removed for a store that somebody put there") func nameless() async throws {
        try await withWorld { world in
            let (path, _) = try await device(world, messages: 3)
            try FileManager.default.moveItem(atPath: path, toPath: path + ".rewound")
            try EventStore.open(at: path).close()
            for user in [ada, nil] {
                #expect { try Replica.open(at: path, user: user).close() } throws: { ($0 as? ReplicaError)?.code == .notReplica }
            }
            try FileManager.default.removeItem(atPath: path)
            // Another's replica is another store as well.
            try Replica.open(at: path + "-other", user: bob).close()
            try FileManager.default.moveItem(atPath: path + "-other", toPath: path)
            #expect { try Replica.open(at: path, user: bob).close() } throws: { ($0 as? ReplicaError)?.code == .notReplica }
            try FileManager.default.removeItem(atPath: path)
            try Replica.recover(at: path)
            #expect(try ReplicaOverlay(of: path)?.outbox.count == 1)
            // What is no replica is somebody else's.
            try FileManager.default.createDirectory(atPath: path + "-2.rewound", withIntermediateDirectories: false)
            try Replica.recover(at: path + "-2")
            #expect(!FileManager.default.fileExists(atPath: path + "-2"))
            // Killed behind the second renaming: the old one has done its service.
            try FileManager.default.copyItem(atPath: path, toPath: path + ".rewound")
            #expect(try world.open(path, ada).outbox.count == 1)
            #expect(!FileManager.default.fileExists(atPath: path + ".rewound"))
        }
    }

    @Test("where names cannot be exchanged it is renamed, also over what a killed process left there") func renamed() async throws {
        try await withWorld { world in
            let (path, _) = try await device(world, messages: 3)
            let disk = SimulatedDisk(world.directory)
            defer { disk.remove() }
            disk.exchangesNames = false
            try FileManager.default.copyItem(atPath: path, toPath: path + ".rewound")
            _ = try Replica.salvage(at: path)
            let names = try FileManager.default.contentsOfDirectory(atPath: world.directory)
            #expect(names.allSatisfy { !$0.hasSuffix(".rewinding") && !$0.hasSuffix(".rewound") })
            #expect(try world.open(path, ada).outbox.count == 1)
        }
    }

    @Test("a link to it stays one, and nothing is left beside it", arguments: [true, false]) func linked(_ exchangesNames: Bool) async throws {
        try await withWorld { world in
            let disk = SimulatedDisk(world.directory)
            defer { disk.remove() }
            disk.exchangesNames = exchangesNames
            let (path, _) = try await device(world, messages: 3)
            let place = world.directory + "/elsewhere"
            try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
            try FileManager.default.moveItem(atPath: path, toPath: place + "/store")
            try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: place + "/store")
            for _ in 0..<2 { _ = try Replica.salvage(at: path) }
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: path) == place + "/store")
            #expect(try FileManager.default.contentsOfDirectory(atPath: place) == ["store"])
            // Killed between two renamings: the link leads nowhere.
            try FileManager.default.moveItem(atPath: place + "/store", toPath: place + "/store.rewound")
            try Replica.recover(at: path)
            #expect(try FileManager.default.contentsOfDirectory(atPath: place) == ["store"])
            #expect(try world.open(path, ada).outbox.count == 1)
        }
    }
}
