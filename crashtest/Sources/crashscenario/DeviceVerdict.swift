import ConversationStore
import EventLog
import Replication

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Judges a device's directory after a crash: what it holds is the hub's, what was promised is there, and it syncs on from there.
struct DeviceVerdict {
    /// All that the hub ever had.
    private struct Truth {
        var digests: [Substring: [Substring]] = [:]
        var roots: [Substring: [Substring: Substring]] = [:]
        /// By position.
        var order: [(log: Substring, seq: UInt64)] = []

        init(_ lines: [[Substring]]) {
            for line in lines {
                switch line[0] {
                case "h":
                    digests[line[1], default: []].append(line[3])
                    order.append((line[1], UInt64(line[2])!))
                case "H": roots[line[1], default: [:]][line[2]] = line[3]
                default: break
                }
            }
        }
    }

    private let hubDirectory: String
    private var truth: (path: String, lines: [[Substring]], truth: Truth)?

    init(hubDirectory: String) { self.hubDirectory = hubDirectory }

    mutating func of(_ directory: String, acks: String, count: Int) -> String {
        Verdict.words {
            if truth?.path != acks {
                let lines = try Verdict.read(acks)
                truth = (acks, lines, Truth(lines))
            }
            try judge(directory, Array(truth!.lines.prefix(count)), truth!.truth)
        }
    }

    private func judge(_ directory: String, _ acks: [[Substring]], _ truth: Truth) throws {
        let path = directory + "/s"
        let promises = acks.filter { ["a", "o", "m"].contains($0[0]) }
        if access(path, F_OK) != 0, !promises.isEmpty { throw Bad(why: "the store is gone, \(promises.count) promises were made") }
        var replica = try Replica.open(at: path, user: Device.user, options: Device.options)
        do {
            let sizes = try check(replica, truth)
            try check(replica, promises, sizes, truth)
            // Each time would take too long; a count that is a prime apart meets all kinds of states.
            if acks.count % 5 == 2 { try syncOn(&replica, directory, promises) }
        } catch {
            try? replica.close()
            throw error
        }
        try replica.close()
        let report = try EventStore.verify(at: path)
        guard report.isSound else { throw Bad(why: "verify: " + report.problems.prefix(3).joined(separator: "; ")) }
    }

    /// Each log is a beginning of the hub's, event by event and by its root. Answers their sizes.
    private func check(_ replica: Replica, _ truth: Truth) throws -> [Substring: UInt64] {
        let store = replica.store.log
        var sizes: [Substring: UInt64] = [:]
        try store.replay { record in
            let log = Substring("\(record.log)")
            let seq = sizes[log, default: 0] + 1
            guard record.seq == seq else { throw Bad(why: "log \(log): seq \(record.seq) is out of place (I2)") }
            guard let all = truth.digests[log], seq <= all.count, all[Int(seq) - 1] == digest(record) else {
                throw Bad(why: "log \(log): seq \(seq) is not the hub's")
            }
            sizes[log] = seq
            return true
        }
        try store.forEachHead { head in
            let log = Substring("\(head.log)")
            guard head.size == sizes[log] ?? 0, truth.roots[log]?["\(head.size)"] == Substring("\(head.root)") else {
                throw Bad(why: "log \(log): its head at \(head.size) is not the hub's (I6)")
            }
            return true
        }
        for name in replica.store.projectionNames {
            guard try replica.store.isFold(name) else { throw Bad(why: "the projection \(name) is not the fold of the log (I4)") }
        }
        return sizes
    }

    private func check(_ replica: Replica, _ promises: [[Substring]], _ sizes: [Substring: UInt64], _ truth: Truth) throws {
        // Nobody vouches for more than what is durable: the hub would never send again what a cursor says is held.
        if let cursor = replica.cursor, promises.contains(where: { $0[0] == "m" }) {
            for event in truth.order.prefix(Int(cursor.position)) {
                guard let size = sizes[event.log], size < event.seq else { continue }
                throw Bad(why: "the cursor says \(cursor.position), but \(event.log) ends at \(size), before \(event.seq)")
            }
        }
        for line in promises where line[0] == "a" {
            guard sizes[line[1], default: 0] >= UInt64(line[2])! else { throw Bad(why: "what was held of \(line[1]) at \(line[2]) is not there (I1)") }
        }
        for line in promises where line[0] == "o" {
            guard let id = ConversationID(line[1]), let message = MessageID(line[2]) else { throw Bad(why: "an unreadable acknowledgement") }
            guard try replica.store.message(in: id, id: message) != nil else { throw Bad(why: "the own message \(message) is in no outbox and no log (I1)") }
        }
    }

    /// With a copy of the hub as it became in the end: then both hold the same, and each own message is there once.
    private func syncOn(_ replica: inout Replica, _ directory: String, _ promises: [[Substring]]) throws {
        let copy = directory + "/hub"
        try EventStore.copy(from: hubDirectory, to: copy)
        let hubStore = try ConversationStore.open(at: copy)
        defer { try? hubStore.close() }
        let hub = try Hub(store: hubStore, options: .anyUser())
        defer { hub.shutdown() }
        for attempt in 0... {
            let session = Session(replica, hub, .mine)
            let isDone = try session.settle()
            try session.end()
            if isDone { break }
            guard attempt < 3 else { throw Bad(why: "it must be opened anew again and again") }
            let path = replica.store.log.path
            try replica.close()
            replica = try Replica.open(at: path, user: Device.user, options: Device.options)
        }
        guard replica.outbox.isEmpty else { throw Bad(why: "the hub does not take the outbox: \(replica.outbox[0].state)") }
        var heads: [LogID: Head] = [:]
        try replica.store.log.forEachHead { head in
            heads[head.log] = head
            return true
        }
        try hubStore.log.forEachLog { log in
            let isOurs = log.participants.contains(Device.user) || log.log == .user(Device.user)
            guard try heads[log.log] == (isOurs ? hubStore.log.head(of: log.log) : nil) else { throw Bad(why: "after a sync \(log.log) is not the hub's") }
            return true
        }
        var seen: [MessageID: Int] = [:]
        try hubStore.log.replay { record in
            if case .messageSent(let message) = record.event.content, record.event.author == Device.user { seen[message.id, default: 0] += 1 }
            return true
        }
        for line in promises where line[0] == "o" {
            guard let message = MessageID(line[2]), seen[message] == 1 else { throw Bad(why: "the own message \(line[2]) is not at the hub once (I3)") }
        }
    }
}
