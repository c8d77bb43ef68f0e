internal import ConversationStore
internal import Replication

/// What one world in thirty-two has besides, once all works again: by itself it is too rare, and it takes as long as ten worlds.
extension Simulation {
    /// A device holds newest parts only, and writes. Its hub is set back behind where these begin; what the device offers then stands below the next page, so
    /// much is said. The device is set back to a copy from before, and finds that; then the hub is set back once more.
    func writeBelowThePage() {
        guard let device = devices.first(where: { $0.isScoped && !$0.isFollower }),
            let id = try? device.replica?.store.lobby(of: device.user, limit: 1).rows.first?.conversation
        else { return }
        world.log("\(device.name): will write in \(id) below the page")
        // Of those of before none is later.
        hub.backUp()
        let setBack = { [self] in
            // Others come first, and say more than makes a page.
            device.isPartitioned = true
            device.cut()
            hub.restore { $0.last! }
            pass(120_000)
            talk(in: id, beside: device)
            pass(20_000)
            device.isPartitioned = false
        }
        let steps: [() -> Void] = [
            { [self] in talk(in: id, beside: device) },
            {
                device.ask(for: .newest(conversations: 5, messages: 2))
                device.replace()
            },
            { [self] in write(1, in: id, by: device) },
            {
                device.forgetCopies()
                device.copy()
            },
            setBack,
            { [self] in talk(in: id, beside: device) },
            { device.restore { $0.last! } },
            setBack,
        ]
        for step in steps {
            step()
            rest()
        }
    }

    private func talk(in id: ConversationID, beside silent: DeviceNode) {
        for device in devices where device !== silent && !device.isFollower { write(4, in: id, by: device) }
    }

    private func write(_ count: Int, in id: ConversationID, by device: DeviceNode) {
        device.enter { replica in
            guard try replica.store.lobby(of: device.user, limit: 20).rows.contains(where: { $0.conversation == id }) else { return }
            try device.take(messages(count, in: id, by: device.user), replica)
        }
    }
}
