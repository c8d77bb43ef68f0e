internal import ConversationStore
internal import Replication

/// A disk that spoils what it keeps, and what `sync --verify` makes of that.
extension DeviceNode {
    /// Its process ends, and one bit of one of its files flips.
    func decay() {
        guard let replica else { return }
        let outbox = Set(replica.outbox.map(\.event))
        fall(keeping: .everything)
        let files = MemoryDirectory.names(path).sorted().filter { $0 == "archive" || $0.hasPrefix("journal.") || $0 == "sync" || $0 == "key" }
        guard !files.isEmpty else { return }
        // Most of what a device has is its archive.
        let file = files.contains("archive") && world.random.chance(0.6) ? "archive" : world.random.element(files)
        guard let place = MemoryDirectory.flip(path + "/" + file, &world.random) else { return }
        world.log("\(name): byte \(place) of \(file) decays")
        isDecayed = true
        // What it made, and the hub has, it may be unable to offer again should the hub lose it; what waits in a spoiled outbox is gone.
        for index in promises.indices {
            if file == "sync" { promises[index].isReleased = true } else if !outbox.contains(promises[index].event) { promises[index].mayBeSpoiled = true }
        }
        if file == "sync" { wasRestored = true }
        observation = Observation()
        observation.mayVanish = true
        streams = []
    }

    /// Mends what decayed, before the store is opened.
    ///
    /// - Throws: `EventLogError`.
    func mend(_ options: ReplicaOptions) throws {
        guard isDecayed else { return }
        let damaged = try EventStore.verify(at: path).damaged
        world.log("\(name): damaged: \(damaged)")
        if damaged.contains(.log) {
            try salvage(options)
        } else if damaged.isEmpty {
            // What only its opening can tell.
            do { try Replica.open(at: path, user: user, options: options).close() } catch let error as EventLogError where error.code == .damaged {
                try salvage(options)
            }
        } else if damaged.contains(.side) {
            let healed = try Replica.healSide(at: path, user: user, options: options)
            world.log("\(name): \(healed?.pending ?? 0) events of the outbox saved")
        }
        if !damaged.contains(.log), damaged.contains(.projections) {
            var store = options.store
            store.access = .existing
            let open = try ConversationStore.open(at: path, options: store)
            do { try open.rebuild() } catch {
                try? open.close()
                throw error
            }
            try open.close()
        }
        isDecayed = false
    }

    private func salvage(_ options: ReplicaOptions) throws {
        let (saved, aside, lost) = try Replica.salvage(at: path, user: user, options: options)
        world.log("\(name): \(saved) events saved, \(aside) of them aside, \(lost.count) lost")
    }
}
