import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@testable import EventLog

/// What leads to runs is damaged, or not given by the disk.
extension RunParityTests {
    @Test("a bit of what leads to the runs takes no event with it") func leading() throws {
        try fill(runs: 3)
        // And one that lies in the leaf itself.
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([sent(9000, in: 1, "small")])
        try store.close()
        let (events, lines) = try saved()
        #expect(events.count == 1803 && lines.isEmpty)
        let path = directory.store + "/archive"
        let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
        // The leaf that names the runs; a page that has the main database's record of them.
        let node: [UInt8] = [1, 0, 8, 0] + Archive.key(position: try runs()[0].position)
        let leaves = Set(sound.ranges(of: node).map { $0.lowerBound / 4096 * 4096 })
        let records = sound.ranges(of: [2, 0, 4, 0] + Array("runs".utf8)).map { $0.lowerBound - 4 }
        #expect(!leaves.isEmpty && !records.isEmpty)
        var ways: [(String, (inout [UInt8]) -> Void)] = []
        for byte in [0, 3, 7, 8, 10, 11, 12, 13, 14, 15] {
            for bit in [0, 2, 5] as [UInt8] {
                ways.append(("leaf's byte \(byte), bit \(bit)", { bytes in for leaf in leaves { bytes[leaf + byte] ^= 1 << bit } }))
            }
        }
        // Its size, flags, the key's size, the key; then flags, depth, pages, entries, root.
        for byte in [0, 1, 4, 6, 8, 11, 12, 16, 18, 20, 28, 36, 44, 52] {
            ways.append(("record's byte \(byte)", { bytes in for record in records { bytes[record + byte] ^= 4 } }))
        }
        for (name, change) in ways {
            var bytes = sound
            change(&bytes)
            try Self.write(bytes, path)
            let (found, lines) = try saved()
            #expect(found == events, "\(name): \(found.count) events; \(lines)")
        }
        // The leaf lost, and what lies in it.
        var lost = sound
        for leaf in leaves { for place in leaf..<leaf + 4096 { lost[place] = 0 } }
        try Self.write(lost, path)
        let areOthers = try saved().events == events.dropLast()
        #expect(areOthers)
        // And with the rows, the state, everything but the runs' own pages gone, too.
        var bytes = [UInt8](repeating: 0, count: sound.count)
        try Self.write(sound, path)
        for run in try runs().dropLast() {
            let first = try #require(sound.firstRange(of: run.bytes[..<2000])?.lowerBound)
            bytes.replaceSubrange(first..<first + run.bytes.count, with: run.bytes)
        }
        try Self.write(bytes, path)
        let areFound = try saved().events == events.dropLast()
        #expect(areFound)
    }

    @Test("a bit of a leaf's header hides neither heads nor secrets from a salvage") func leaves() throws {
        try fill(runs: 2)
        let store = try EventStore.open(at: directory.store)
        let event = try #require(try store.all().first { if case .messageSent = $0.event.content { true } else { false } })
        // An erasure's log has a secret of its own.
        try store.erase(log: event.log, seq: event.seq)
        try store.close()
        func heads() -> [LogID: Head] {
            EventStore.salvageHeads(at: directory.store)?.logs.filter { $0.value.secret != nil || $0.key != event.log }.mapValues(\.head) ?? [:]
        }
        let before = heads()
        #expect(before.count == 2)
        let path = directory.store + "/archive"
        let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
        var count = 0
        for page in 2..<sound.count / 4096 {
            let start = page * 4096
            guard sound[start] == UInt8(truncatingIfNeeded: page), sound[start + 1] == UInt8(page >> 8), sound[start + 10] == 2, sound[start + 11] == 0 else {
                continue
            }
            count += 1
            for byte in [0, 3, 10, 14] {
                var bytes = sound
                bytes[start + byte] ^= 4
                try Self.write(bytes, path)
                #expect(heads() == before, "page \(page), byte \(byte)")
            }
        }
        #expect(count > 4)
    }

    @Test("what was erased is not found again where it was let go") func letGo() throws {
        try fill(runs: 2)
        let before = try runs()[0].bytes
        let store = try EventStore.open(at: directory.store)
        let event = try #require(
            try store.all().first { if case .messageSent(let message) = $0.event.content { message.text.hasPrefix("message 300") } else { false } })
        try store.erase(log: event.log, seq: event.seq)
        // As after a crash: a close may write the file anew.
        let path = directory.store + "/archive"
        let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
        let key = try File(directory.store + "/key", O_RDONLY).read(1 << 16, at: 0)
        let anew = try runs()[0].bytes
        try store.close()
        func lose(_ bytes: inout [UInt8], _ place: Int) { for place in place / 4096 * 4096..<place / 4096 * 4096 + 4096 { bytes[place] = 0 } }
        let leaves = sound.ranges(of: [1, 0, 8, 0] + Archive.key(position: 1)).map(\.lowerBound)
        let place = try #require(sound.firstRange(of: anew[..<2000])?.lowerBound)
        let secrets = sound.ranges(of: [2, 0, 7, 0] + Array("secrets".utf8)).map { $0.lowerBound - 4 }
        for way in 0..<5 {
            var bytes = sound
            // The leaf that names the run is lost; then also the run, so that only what was let go is left; or that lies behind it; or nothing tells of erasures.
            if way > 0 { for leaf in leaves { lose(&bytes, leaf) } }
            if way == 2 { lose(&bytes, place) }
            if way == 3 {
                bytes += [UInt8](repeating: 0, count: 16) + before
                bytes += [UInt8](repeating: 0, count: 4096 - bytes.count % 4096)
            }
            if way == 4 { for record in secrets { bytes[record + 8] ^= 1 } }
            try Self.write(bytes, path)
            try Self.write(key, directory.store + "/key")
            let (found, lines) = try saved()
            #expect(found.count == (way == 2 ? 1201 : 1202), "\(way): \(found.count); \(lines)")
            #expect(lines.contains { $0.contains("its body was erased") } == (way == 2))
            #expect(lines.contains { $0.contains("was erased since cannot be told") } == (way == 4))
            let leaks = found.contains { if case .messageSent(let message) = $0.event.content { message.text.hasPrefix("message 300 ") } else { false } }
            #expect(!leaks)
        }
    }

    @Test("a run's bytes that somebody wrote into a message's ids are none, and what the journal has stands") func planted() throws {
        // A run of somebody's own, for where the store ends.
        let other = try EventStore.open(at: directory.path + "/other")
        _ = try other.appendBlocking([created(5, by: "admin"), sent(1, in: 5, by: "admin", "pay mallory")])
        try other.flush()
        let forged = try #require(try other.storedRun(containing: 1)).bytes
        try other.close()
        try fill(runs: 2)
        let store = try EventStore.open(at: directory.store)
        let end = store.lastPosition
        try store.close()
        let (events, _) = try saved()
        let path = directory.store + "/archive"
        let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
        for position in [end + 1, 1] {
            var run = forged
            try DecodedRun.move(&run, from: SegmentCodec.position, to: position)
            // On a page that nothing names; a damaged page elsewhere has all be looked for.
            var bytes = sound
            bytes += [UInt8](repeating: 0, count: 16) + run
            bytes += [UInt8](repeating: 0, count: 4096 - bytes.count % 4096)
            let leaf = try #require((2..<sound.count / 4096).first { sound[$0 * 4096] == UInt8(truncatingIfNeeded: $0) && sound[$0 * 4096 + 10] == 2 })
            bytes[leaf * 4096 + 10] ^= 4
            try Self.write(bytes, path)
            let (found, lines) = try saved()
            #expect(found == events, "\(position): \(found.count); \(lines)")
        }
    }

    @Test("a page that cannot be read hides no older root beside it, and one behind the last is none's") func besideUnreadable() throws {
        try fill()
        let path = directory.store + "/archive"
        let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
        // What a commit left that failed.
        try Self.write(sound + [UInt8](repeating: 7, count: 3 * 4096), path)
        do {
            let disk = BadSector(of: "archive", at: sound.count + 4096, bytes: 4096)
            FaultyDisks.add(disk, for: directory.store)
            defer { FaultyDisks.remove(disk) }
            #expect(try isSound)
            #expect(try EventStore.restore(at: directory.store) == 0)
        }
        try Self.write(sound, path)
        let root = try #require(
            (2..<sound.count / 4096).last { page in
                let bytes = sound[page * 4096..<page * 4096 + 4096]
                return bytes[page * 4096 + 10] == 2 && bytes.firstRange(of: [2, 0, 4, 0] + Array("runs".utf8)) != nil
            })
        func state() throws -> Archive.State? {
            var file = try DataFile(path: path)
            file.isLenient = true
            file.findRoot { Archive.State(salvaging: $0)?.commit }
            return Archive.State(salvaging: file)
        }
        // All that lead there.
        var cut = sound
        for meta in 0..<2 { for place in meta * 4096..<meta * 4096 + 4096 { cut[place] = 0 } }
        try Self.write(cut, path)
        let isFound = try state() != nil
        let disk = BadSector(of: "archive", at: (root == 2 ? 3 : 2) * 4096, bytes: 4096)
        FaultyDisks.add(disk, for: directory.store)
        defer { FaultyDisks.remove(disk) }
        #expect(try isFound && state() != nil)
    }

    @Test("a page of a run that the disk does not give is restored, also without opening the store, and a disk is given it anew") func unreadablePage() throws {
        try fill(runs: 2)
        let events = try saved().events
        let path = directory.store + "/archive"
        for run in try runs() {
            for number in 0..<4 {
                let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
                let first = try #require(sound.firstRange(of: run.bytes[..<2000])?.lowerBound) - 16
                let page = [first, first + 4096, first + 12_288, (first + 16 + run.bytes.count - 1) / 4096 * 4096][number]
                // What lies there must come from elsewhere.
                var bytes = sound
                for place in page..<page + 4096 { bytes[place] = 0xA5 }
                try Self.write(bytes, path)
                let disk = BadSector(of: "archive", at: page, bytes: 4096)
                FaultyDisks.add(disk, for: directory.store)
                defer { FaultyDisks.remove(disk) }
                #expect(try !isSound)
                let (found, lines) = try saved()
                #expect(found == events, "page \(page): \(lines)")
                #expect(try EventStore.restore(at: directory.store) == 1, "page \(page)")
                #expect(try isSound)
                let isAsItWas = try runs().map(\.bytes).contains(run.bytes)
                #expect(isAsItWas)
            }
        }
        // Without parity, and where no run lies, it is told, and nothing is mapped.
        let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
        try Directory.remove(directory.store + "/parity")
        var inUse = 0
        for page in stride(from: 0, to: sound.count, by: 4096) {
            let disk = BadSector(of: "archive", at: page, bytes: 4096)
            FaultyDisks.add(disk, for: directory.store)
            defer { FaultyDisks.remove(disk) }
            let isInUse = try page < 8192 || !DataFile(path: path).unreadablePages().isEmpty
            if isInUse { inUse += 1 }
            #expect(try isSound == !isInUse, "page \(page)")
            guard isInUse else { continue }
            let failure = #expect(throws: EventLogError.self) { try EventStore.restore(at: directory.store) }
            #expect(failure?.code == .damaged, "page \(page): \(failure?.message ?? "")")
        }
        #expect(inUse > 60 && inUse < sound.count / 4096)
    }
}
