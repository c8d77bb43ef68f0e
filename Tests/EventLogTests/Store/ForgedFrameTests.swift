import Testing

@testable import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Whoever takes part in a conversation can put a journal frame's bytes into a message: these are no frame, wherever they come to lie.
@Suite("Frames in messages") struct ForgedFrameTests {
    private let directory = TemporaryDirectory()
    private var journalBytes: Int { 256 << 10 }

    private func custom(_ payload: [UInt8], by author: String = "bob") -> Submission {
        Submission(Event(conversation: conversation(1), author: user(author), content: .custom(name: "x", payload: payload)))
    }

    /// A frame as a participant can make one, who knows the store's id: cursors tell it.
    private func frame(
        _ store: StoreID, generation: UInt64, number: UInt64 = 1 << 50, syncedThrough: UInt64 = 1 << 49, position: Position = 1 << 40, payload: [UInt8] = [],
        events: Int = 0
    ) -> [UInt8] {
        var out = ByteBuffer()
        for _ in 0..<Frame.headerBytes { out.put(byte: 0) }
        out.put(payload)
        _ = Frame.seal(
            &out,
            Frame.Header(
                payloadBytes: 0, checksum: 0, store: store, generation: generation, number: number, syncedThrough: syncedThrough, previousChecksum: 0,
                firstPosition: position, events: events, purpose: events > 0 ? .events : .close))
        return out.array()
    }

    /// At each of the eight places in a word, as a frame begins at a multiple of eight.
    private func everywhere(_ bytes: [UInt8]) -> [UInt8] {
        (0..<8).flatMap { _ in bytes + [UInt8](repeating: 0, count: (8 - bytes.count % 8) % 8 + 1) }
    }

    @Test("behind the last frame of a file that is used again they keep no store from opening", .timeLimit(.minutes(20))) func recycled() throws {
        let store = try EventStore.open(at: directory.store, options: StoreOptions(journalBytesMax: journalBytes))
        let forged = everywhere((1...40).flatMap { frame(store.id, generation: $0) })
        _ = try store.appendBlocking([created(1)])
        // As often as the files are used again; then at each place in one, so that what is old lies behind the newest frame, and is cut elsewhere each time.
        for _ in 0..<40 { _ = try store.appendBlocking([custom(forged)]) }
        for round in 0..<20 {
            let pad = [UInt8](repeating: 0, count: round * 911 % 7000)
            #expect(try store.appendBlocking([custom(forged + pad), sent(UInt64(round), in: 1, "small")]).allSatisfy(\.isAccepted))
            let all = try store.all()
            let copy = try abandonedCopy(of: store, in: directory, "copy \(round)")
            let again = try EventStore.open(at: copy)
            #expect(try again.all() == all, "round \(round)")
            try again.close()
            #expect(try EventStore.verify(at: copy).isSound)
        }
        try store.close()
    }

    @Test("where a file's first frame is torn they keep no store from opening") func headless() throws {
        let store = try EventStore.open(at: directory.store, options: StoreOptions(journalBytesMax: journalBytes))
        let forged = everywhere((1...40).flatMap { frame(store.id, generation: $0) })
        _ = try store.appendBlocking([created(1)])
        for _ in 0..<40 { _ = try store.appendBlocking([custom(forged)]) }
        let copy = try abandonedCopy(of: store, in: directory, "copy")
        try store.close()
        // The file that would be used next, of which the crash left half a frame's header.
        let files = try (0..<FileJournal.fileCount).map { slot in
            let bytes = try File(FileJournal.path(copy, slot), O_RDONLY).read(1 << 20, at: 0)
            return (slot, try #require(bytes.withUnsafeBytes { Frame.read($0, at: 0, store: store.id) }).generation, bytes)
        }
        var oldest = try #require(files.min { $0.1 < $1.1 })
        for place in 40..<Frame.headerBytes { oldest.2[place] = 0 }
        let file = try File(FileJournal.path(copy, oldest.0), O_RDWR)
        try oldest.2.withUnsafeBytes { try file.write($0, at: 0) }
        let again = try EventStore.open(at: copy)
        #expect(again.lastPosition == 41)
        try again.close()
    }

    @Test("salvage tells none of them, be they in a damaged frame or left in a file that is used again") func salvaging() throws {
        // What was never said, as the frame of a store of one's own has it.
        let own = try EventStore.open(at: directory.path + "/own")
        _ = try own.appendBlocking([created(1), sent(1, in: 1, "I owe bob 1000"), sent(2, in: 1, "and 1000 more")])
        let ownCopy = try abandonedCopy(of: own, in: directory, "own copy")
        let journal = try File(FileJournal.path(ownCopy, 0), O_RDONLY).read(1 << 20, at: 0)
        let header = try #require(journal.withUnsafeBytes { Frame.read($0, at: 0, store: own.id) })
        let payload = Array(journal[Frame.headerBytes..<Frame.headerBytes + header.payloadBytes])
        try own.close()

        let store = try EventStore.open(at: directory.store, options: StoreOptions(journalBytesMax: 1 << 20))
        _ = try store.appendBlocking([created(1)])
        let forged = everywhere(
            (1...6).flatMap { generation in
                [Position(3), 1 << 40].flatMap { position in
                    frame(store.id, generation: generation, number: 1 << 20, syncedThrough: 0, position: position, payload: payload, events: header.events)
                }
            })
        for number in 0..<3 as Range<UInt64> { _ = try store.appendBlocking([custom(forged), sent(100 + number, in: 1, "said \(number)")]) }
        let all = try store.all()
        let copy = try abandonedCopy(of: store, in: directory, "copy")
        func saved(_ path: String) throws -> (events: [RecordedEvent], lost: [String]) {
            var (events, lost) = ([RecordedEvent](), [String]())
            try EventStore.salvage(at: path, event: { events.append($0) }, lost: { lost.append($0) })
            return (events, lost)
        }
        #expect(try saved(copy).events == all)
        #expect(try saved(copy).lost == [])
        // A bit of each frame in turn.
        let path = FileJournal.path(copy, 0)
        let sound = try File(path, O_RDONLY).read(1 << 20, at: 0)
        var offset = 0, frames = 0
        while let header = sound.withUnsafeBytes({ Frame.read($0, at: offset, store: store.id) }) {
            for place in [offset + 8, offset + Frame.headerBytes] {
                var bytes = sound
                bytes[place] ^= 1
                let file = try File(path, O_RDWR)
                try bytes.withUnsafeBytes { try file.write($0, at: 0) }
                let (events, lost) = try saved(copy)
                let held = header.firstPosition..<header.firstPosition + Position(header.events)
                #expect(events == all.filter { !held.contains($0.position) }, "frame \(header.number), byte \(place - offset): \(events.count); \(lost)")
                #expect(lost.contains { $0.contains("the frame at byte \(offset) is damaged") }, "\(lost)")
            }
            offset += header.frameBytes
            frames += 1
        }
        #expect(frames == 4)
        // What the first frame says of its generation, and that it is one, may be what is damaged.
        for place in [0, 17, 33, 34, 36, 39] {
            var bytes = sound
            bytes[place] ^= 4
            let file = try File(path, O_RDWR)
            try bytes.withUnsafeBytes { try file.write($0, at: 0) }
            let (events, lost) = try saved(copy)
            #expect(events == all.filter { $0.position > 1 }, "byte \(place): \(events.count); \(lost)")
            #expect(lost.contains { $0.contains("frame") }, "\(lost)")
        }
        // Left in files that are used again, of a store that is only killed.
        for number in 0..<60 as Range<UInt64> {
            _ = try store.appendBlocking([custom(forged + [UInt8(number)])])
            if number % 7 > 0 { continue }
            let copy = try abandonedCopy(of: store, in: directory, "copy \(number)")
            let (events, lost) = try saved(copy)
            #expect(try events == store.all() && lost == [], "\(number): \(events.count); \(lost)")
        }
        try store.close()
    }

    @Test("generations begin anywhere, and go on by one") func generations() throws {
        var first: Set<UInt64> = []
        for number in 0..<3 {
            let path = directory.path + "/\(number)"
            let store = try EventStore.open(at: path)
            _ = try store.appendBlocking([created(1)])
            let copy = try abandonedCopy(of: store, in: directory, "copy \(number)")
            let bytes = try File(FileJournal.path(copy, 0), O_RDONLY).read(1 << 10, at: 0)
            first.insert(try #require(bytes.withUnsafeBytes { Frame.read($0, at: 0, store: store.id) }).generation)
            try store.close()
        }
        #expect(first.count == 3 && first.allSatisfy { $0 >= 1 << 60 && $0 < 1 << 61 })
        #expect(Frame.Generation.after(1 << 60) == 1 << 60 + 1)
        // Of a store that counted from one.
        #expect(Frame.Generation.after(7) >= 1 << 60 && Frame.Generation.isNext(1 << 60 + 5, after: 7) && !Frame.Generation.isNext(9, after: 1 << 60))
    }
}
