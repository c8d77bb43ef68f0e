import Foundation
import Testing

@testable import EventLog

/// What is on disk stays readable: these files are never changed but by a new format version. (`make docs-vectors` writes them.)
@Suite("Format vectors", .serialized) struct FormatVectorTests {
    static func salt(_ seq: Seq) -> Hash256 { Hash256(bytes: [UInt8](repeating: UInt8(truncatingIfNeeded: seq), count: 32))! }

    static func events() throws -> [String: RecordedEvent] {
        let file = try FormatVectors.read("events.json", as: FormatVectors.Events.self)
        return try Dictionary(uniqueKeysWithValues: file.events.map { ($0.name, try $0.input.recorded()) })
    }

    @Test("an event's bytes are those of its vector, and are read as it") func events() throws {
        var file = try FormatVectors.read("events.json", as: FormatVectors.Events.self)
        for index in file.events.indices {
            let vector = file.events[index]
            let recorded = try vector.input.recorded()
            let (envelope, body) = EventCodec.encode(recorded)
            let commitment = body.withUnsafeBytes { Merkle.bodyCommitment(salt: Self.salt(recorded.seq), body: $0) }
            let leaf = envelope.withUnsafeBytes { Merkle.eventLeaf(envelope: $0, commitment: commitment) }
            if FormatVectors.isWriting {
                file.events[index].envelope = hex(envelope)
                file.events[index].body = hex(body)
                file.events[index].commitment = commitment.hex
                file.events[index].leaf = leaf.hex
                continue
            }
            #expect(hex(envelope) == vector.envelope, "\(vector.name)")
            #expect(hex(body) == vector.body, "\(vector.name)")
            #expect(commitment.hex == vector.commitment && leaf.hex == vector.leaf, "\(vector.name)")
            #expect(try EventCodec.decode(envelope: bytes(vector.envelope), body: bytes(vector.body)) == recorded, "\(vector.name)")
        }
        if FormatVectors.isWriting { try FormatVectors.write(file, "events.json") }
    }

    @Test("every kind has a vector") func everyKind() throws {
        let seen = Set(try Self.events().values.compactMap { $0.event.content.kind })
        #expect(seen == Set(Event.Kind.allCases))
    }

    @Test("fields of a newer version are read over, and kept") func newer() throws {
        let file = try FormatVectors.read("events.json", as: FormatVectors.Events.self)
        #expect(!file.newer.isEmpty)
        for vector in file.newer {
            let base = try #require(file.events.first { $0.name == vector.of })
            let envelope = try bytes(base.envelope + vector.envelopeAppends)
            let body = try bytes(base.body + vector.bodyAppends)
            var read = try EventCodec.decode(envelope: envelope, body: body)
            let encoded = EventCodec.encode(read)
            #expect(encoded.envelope == envelope && encoded.body == body, "\(vector.name)")
            #expect(read.newer != nil, "\(vector.name)")
            read.newer = nil
            #expect(try read == base.input.recorded(), "\(vector.name)")
            var again = ByteBuffer()
            try envelope.withUnsafeBytes { try Envelope(canonical: $0) }.encode(into: &again)
            #expect(again.array() == envelope, "\(vector.name)")
        }
    }

    @Test("bytes that are not canonical are refused, each with its problem") func wrong() throws {
        let file = try FormatVectors.read("events.json", as: FormatVectors.Events.self)
        #expect(file.wrong.count > 20)
        for vector in file.wrong {
            var problem = "none"
            do {
                _ = try EventCodec.decode(envelope: bytes(vector.envelope), body: bytes(vector.body))
            } catch let error as CodecError {
                problem = "\(error.problem)"
            }
            #expect(problem == vector.problem, "\(vector.name)")
        }
    }

    @Test("a frame's bytes are those of its vector, and are read as it") func frames() throws {
        if FormatVectors.isWriting { try FormatVectors.write(Self.makeFrames(), "frame.json") }
        let file = try FormatVectors.read("frame.json", as: FormatVectors.Frames.self)
        let store = try StoreID(file.store).orThrow()
        let known = try Self.events()
        for vector in file.frames {
            var builder = FrameBuilder()
            for record in vector.records { try Self.put(record, known, &builder) }
            let header = try Self.header(vector, store)
            #expect(Frame.seal(&builder.bytes, header) == UInt64(vector.checksum, radix: 16), "\(vector.name)")
            #expect(hex(builder.bytes.array()) == vector.bytes, "\(vector.name)")

            var stored = try bytes(vector.bytes)
            let read = try #require(stored.withUnsafeBytes { Frame.read($0, at: 0, store: store) }, "\(vector.name)")
            #expect(read.number == vector.number && read.generation == vector.generation && read.syncedThrough == vector.syncedThrough)
            #expect(read.frameBytes == stored.count && read.events == vector.events && read.purpose.rawValue == vector.purpose)
            let payload = stored.withUnsafeBytes { Array($0[Frame.headerBytes..<Frame.headerBytes + read.payloadBytes]) }
            let tail = try payload.withUnsafeBytes {
                try TailFrame($0, number: read.number, firstPosition: read.firstPosition, events: read.events)
            }
            let names = vector.records.compactMap(\.event)
            for (index, name) in names.enumerated() {
                var expected = known[name]!
                expected.position = vector.firstPosition + UInt64(index)
                #expect(try tail.recorded(index) == expected, "\(vector.name)")
            }
            // No byte of it may change.
            for index in stored.indices {
                stored[index] ^= 0x40
                #expect(stored.withUnsafeBytes { Frame.read($0, at: 0, store: store) } == nil, "\(vector.name), byte \(index)")
                stored[index] ^= 0x40
            }
        }
    }

    @Test("a run that was written once is read for ever") func run() throws {
        if FormatVectors.isWriting { try FormatVectors.write(Self.makeRun(), "run.json") }
        let file = try FormatVectors.read("run.json", as: FormatVectors.Run.self)
        let known = try Self.events()
        var stored = try bytes(file.bytes)
        let run = try stored.withUnsafeBytes { try DecodedRun($0, at: file.position, decompressor: ZstdDecompressor()) }
        #expect(run.order.count == file.events.count)
        for (index, name) in file.events.enumerated() {
            var expected = known[name]!
            expected.position = file.position + UInt64(index)
            let place = Int(run.order[index])
            let recorded = try run.recorded(at: place)
            if let commitment = file.erased[name] {
                #expect(recorded.isErased && run.commitments[place]?.hex == commitment, "\(name)")
                #expect(run.envelope(at: place) == Envelope(expected), "\(name)")
            } else {
                #expect(recorded == expected, "\(name)")
            }
        }
        // One byte in seven: a header, a column and a text among them.
        for index in stride(from: 0, to: stored.count, by: 7) {
            stored[index] ^= 0x10
            #expect(throws: (any Error).self, "byte \(index)") {
                let run = try stored.withUnsafeBytes { try DecodedRun($0, at: file.position, decompressor: ZstdDecompressor()) }
                for place in run.events.indices { _ = try run.recorded(at: place) }
            }
            stored[index] ^= 0x10
        }
    }

    @Test("the seed tree's leaves and a punctured tree's bytes are those of the vectors") func seeds() throws {
        if FormatVectors.isWriting { try FormatVectors.write(Self.makeSeeds(), "seedtree.json") }
        let file = try FormatVectors.read("seedtree.json", as: FormatVectors.Seeds.self)
        let root = try Hash256(hex: file.root).orThrow()
        for leaf in file.leaves { #expect(SeedTree(root: root).leaf(at: leaf.index).hex == leaf.seed) }
        for vector in file.punctured {
            var seeds = PuncturedSeeds(root: root)
            for index in vector.forgotten { seeds.forget(index) }
            #expect(hex(seeds.encoded) == vector.encoded)
            let read = try PuncturedSeeds(encoded: bytes(vector.encoded)).orThrow()
            for index in vector.forgotten { #expect(read.leaf(at: index) == nil) }
            for leaf in file.leaves where !vector.forgotten.contains(leaf.index) { #expect(read.leaf(at: leaf.index)?.hex == leaf.seed) }
        }
    }

    @Test("a log's row, the store's records and the key file are those of the vectors") func rows() throws {
        if FormatVectors.isWriting { try FormatVectors.write(Self.makeRows(), "row.json") }
        let file = try FormatVectors.read("row.json", as: FormatVectors.Rows.self)
        for vector in file.rows {
            let key = try bytes(vector.key)
            let row = try bytes(vector.bytes).withUnsafeBytes {
                try LogRow(key: key, decoding: Archive.open(key, $0, vector.name)) { ReplicaID(high: 0, low: $0) }
            }
            #expect(try Self.describe(row, vector.name).bytes == vector.bytes, "\(vector.name)")
            #expect(row.seq == vector.seq && row.messages == vector.messages && row.number == vector.number && row.people.count == vector.people.count)
            #expect(row.slices.map(\.run) == vector.slices.map(\.run) && row.tree.hashes.map(\.hex) == vector.tree)
            #expect(row.lanes.map(\.mark) == vector.lanes.map(\.mark) && Archive.key(log: row.id) == key)
        }
        let state = try bytes(file.stateBytes).withUnsafeBytes { try Archive.State(decoding: Archive.open(Archive.MetaKey.state, $0, "state")) }
        #expect(Self.describe(state) == file.state)
        #expect(hex(Archive.sealed(Archive.MetaKey.state, state.encode())) == file.stateBytes)
        #expect(hex(Archive.storeRecord(try StoreID(file.store).orThrow())) == file.storeBytes)

        let folder = FileManager.default.temporaryDirectory.appending(path: "format-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.path(percentEncoded: false)
        try Data(bytes(file.keyFile.bytes)).write(to: folder.appending(path: "key"))
        let read = try KeyFile(reading: path)
        #expect(read.store.description == file.store && read.signingSeed.hex == file.keyFile.signingSeed)
        #expect([read.current, read.next].compactMap { $0?.secret.hex } == file.keyFile.keys.map(\.secret))
        #expect([read.current, read.next].compactMap { $0?.generation } == file.keyFile.keys.map(\.generation))
        try read.write(to: path)
        #expect(hex(try Data(contentsOf: folder.appending(path: "key"))) == file.keyFile.bytes)
    }
}

/// How the files are made.
extension FormatVectorTests {
    static let store = StoreID("c0ffee00-1234-4abc-8def-00112233aabb")!

    static func put(_ record: FormatVectors.Record, _ known: [String: RecordedEvent], _ builder: inout FrameBuilder) throws {
        switch record.kind {
        case 1:
            let recorded = try known[record.event.orThrow()].orThrow()
            builder.put(Envelope(recorded), recorded.event)
        case 2:
            builder.put(
                MarkRecord(
                    log: try FormatVectors.Input.log(record.log.orThrow()), replica: try ReplicaID(record.replica.orThrow()).orThrow(),
                    counter: try record.counter.orThrow(),
                    answer: try record.refusal.map { .refused(Refusal(try RefusalCode(rawValue: $0).orThrow(), record.detail ?? "")) }
                        ?? record.detail.flatMap { Seq($0) }.map { .duplicate($0) }))
        case 3: builder.put(SecretRecord(log: try FormatVectors.Input.log(record.log.orThrow()), wrapped: try bytes(record.wrapped.orThrow())))
        default: throw BadVector()
        }
    }

    static func header(_ vector: FormatVectors.FrameVector, _ store: StoreID) throws -> Frame.Header {
        Frame.Header(
            payloadBytes: 0, checksum: 0, store: store, generation: vector.generation, number: vector.number, syncedThrough: vector.syncedThrough,
            previousChecksum: try UInt64(vector.previousChecksum, radix: 16).orThrow(), firstPosition: vector.firstPosition, events: vector.events,
            purpose: try Frame.Purpose(rawValue: vector.purpose).orThrow())
    }

    static func makeFrames() throws -> FormatVectors.Frames {
        let known = try events()
        let conversation = "018f5c2e-7b1a-7c3d-8e4f-0123456789ab"
        let replica = "6f1c2d3e-4a5b-4c6d-8e7f-0a1b2c3d4e5f"
        func record(_ kind: UInt8) -> FormatVectors.Record { FormatVectors.Record(kind: kind) }
        var refused = record(2)
        (refused.log, refused.replica, refused.counter, refused.refusal, refused.detail) = (conversation, replica, 300, "chunk_gap", "2")
        var duplicate = record(2)
        (duplicate.log, duplicate.replica, duplicate.counter) = ("user:çağla", replica, 301)
        var joined = record(2)
        (joined.log, joined.replica, joined.counter, joined.detail) = (conversation, replica, 302, "17")
        var secret = record(3)
        (secret.log, secret.wrapped) = (conversation, hex(0..<61))
        func event(_ name: String) -> FormatVectors.Record {
            var result = record(1)
            result.event = name
            return result
        }
        var frames: [FormatVectors.FrameVector] = []
        let parts: [(String, [FormatVectors.Record], UInt32)] = [
            ("events only", [event("message.sent, text only"), event("receipt.read")], 0),
            ("a secret, events and marks", [secret, event("chunk.appended, index 0"), refused, duplicate, joined, event("a kind of a newer version")], 0),
            ("marks only", [refused], 0), ("a close", [], 1), ("a mark after a wipe", [], 2),
        ]
        var position: UInt64 = 1001
        var previous: UInt64 = 0x0123_4567_89AB_CDEF
        for (index, (name, records, purpose)) in parts.enumerated() {
            let count = records.filter { $0.kind == 1 }.count
            var vector = FormatVectors.FrameVector(
                name: name, generation: UInt64(3 + index / 3), number: UInt64(70 + index), syncedThrough: UInt64(69 + index),
                previousChecksum: String(previous, radix: 16), firstPosition: position, events: count, purpose: purpose, records: records, checksum: "",
                bytes: "")
            var builder = FrameBuilder()
            for record in records { try put(record, known, &builder) }
            previous = Frame.seal(&builder.bytes, try header(vector, store))
            vector.checksum = String(previous, radix: 16)
            vector.bytes = hex(builder.bytes.array())
            frames.append(vector)
            position += UInt64(count)
        }
        return FormatVectors.Frames(store: store.description, frames: frames)
    }

    static func makeRun() throws -> FormatVectors.Run {
        let file = try FormatVectors.read("events.json", as: FormatVectors.Events.self)
        // Those that are dense in their logs; the user's log in the midst of the conversation's, and one event of its own log last.
        var names = file.events.prefix(22).map(\.name)
        names.insert(contentsOf: names[17...18], at: 4)
        names.removeSubrange(19...20)
        names.append("the least of all")
        let erased = "message.edited"
        let known = try events()
        let position: Position = 5_000_000_000
        var out = ByteBuffer()
        var bodies: [[UInt8]] = []
        for name in names { bodies.append(name == erased ? [] : EventCodec.encode(known[name]!).body) }
        let commitment = try Hash256(hex: file.events.first { $0.name == erased }.orThrow().commitment.orThrow()).orThrow()
        let joined = bodies.flatMap { $0 }
        try joined.withUnsafeBytes { all in
            var pending: [PendingEvent] = []
            var offset = 0
            for (name, body) in zip(names, bodies) {
                let part = UnsafeRawBufferPointer(rebasing: all[offset..<offset + body.count])
                offset += body.count
                pending.append(
                    PendingEvent(envelope: Envelope(known[name]!), body: BodyParts(body: part), commitment: name == erased ? commitment : nil))
            }
            var shape = RunShape()
            shape.textFrameBytes = 64
            var encoder = RunEncoder(shape: shape)
            _ = try encoder.encode(pending, at: position, into: &out)
        }
        return FormatVectors.Run(position: position, events: Array(names), erased: [erased: commitment.hex], bytes: hex(out.array()))
    }

    static func makeSeeds() throws -> FormatVectors.Seeds {
        let root = Hash256(bytes: 0..<32)!
        let indexes: [UInt64] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 62, 63, 1000, 1 << 40, .max - 1]
        let sets: [[UInt64]] = [[], [0], [2], [2, 3], [0, 1, 2], [7], [1000, 5, 62]]
        return FormatVectors.Seeds(
            root: root.hex, leaves: indexes.map { FormatVectors.Seeds.Leaf(index: $0, seed: SeedTree(root: root).leaf(at: $0).hex) },
            punctured: sets.map { set in
                var seeds = PuncturedSeeds(root: root)
                for index in set { seeds.forget(index) }
                return FormatVectors.Seeds.Punctured(forgotten: set, encoded: hex(seeds.encoded))
            })
    }

    static func makeRows() throws -> FormatVectors.Rows {
        var row = LogRow(id: try FormatVectors.Input.log("018f5c2e-7b1a-7c3d-8e4f-0123456789ab"), number: 300)
        let names = try FormatVectors.read("events.json", as: FormatVectors.Events.self).events.map(\.name)
        let known = try events()
        for name in names.prefix(21) where known[name]!.log == row.id {
            let recorded = known[name]!
            let (envelope, body) = EventCodec.encode(recorded)
            try envelope.withUnsafeBytes { envelope in
                try body.withUnsafeBytes { body in
                    // An end, a deletion and an edit would close the stream that the vector is to show.
                    if ![9, 11].contains(recorded.seq), !name.hasPrefix("message.completed") {
                        try row.apply(Effect(envelope: Envelope(canonical: envelope), body: BodyParts(body: body)))
                    }
                    row.tree.append(Merkle.leafHash(envelope))
                }
            }
        }
        row.mark(ReplicaID(high: 0, low: 1), 12, answered: .refused(Refusal(.chunkGap, "2")))
        row.mark(ReplicaID(high: 0, low: 1), 13, answered: .duplicate(17))
        row.mark(ReplicaID(high: 0, low: 1), 300, answered: .refused(Refusal(.originConflict, "")))
        row.slices = [
            LogRow.Slice(run: 1, index: 0, firstSeq: 1, count: 12, messages: 2), LogRow.Slice(run: 900, index: 17, firstSeq: 13, count: 7, messages: 0),
        ]
        // The vector names replicas by the store's numbers.
        for index in row.lanes.indices { row.lanes[index].replica = ReplicaID(high: 0, low: UInt64(index * 200)) }
        var user = LogRow(id: try FormatVectors.Input.log("user:çağla"), number: 0)
        user.mark(ReplicaID(high: 0, low: 5), 1)
        var state = Archive.State()
        (state.position, state.frame, state.hlc, state.nextNumber, state.conversations, state.messages) = (1000, 70, 0x18b_cfe5_6800_0001, 301, 2, 3)
        (state.runs, state.rawBytes, state.compressedBytes, state.commit, state.keyGeneration, state.headsEntries) = (4, 500_000, 60_000, 9, 2, 7)
        var out = ByteBuffer()
        out.put(fixed32: KeyFile.magic)
        out.put(fixed32: 1)
        out.put(store)
        out.put([UInt8](repeating: 0x51, count: 32))
        var keys: [FormatVectors.KeyFileVector.Key] = []
        for (generation, byte) in [(1, 0x61), (2, 0x62)] as [(UInt64, UInt8)] {
            out.put(fixed64: generation)
            out.put([UInt8](repeating: byte, count: 32))
            keys.append(FormatVectors.KeyFileVector.Key(generation: generation, secret: hex([UInt8](repeating: byte, count: 32))))
        }
        out.put(fixed64: XXH64.hash(out.bytes, seed: 0))
        return FormatVectors.Rows(
            rows: [try describe(row, "a conversation's"), try describe(user, "a log that has only been asked")], state: describe(state),
            stateBytes: hex(Archive.sealed(Archive.MetaKey.state, state.encode())), store: store.description, storeBytes: hex(Archive.storeRecord(store)),
            keyFile: FormatVectors.KeyFileVector(signingSeed: hex([UInt8](repeating: 0x51, count: 32)), keys: keys, bytes: hex(out.array())))
    }

    static func describe(_ state: Archive.State) -> [String: UInt64] {
        [
            "position": state.position, "frame": state.frame, "hlc": state.hlc, "next_number": state.nextNumber, "conversations": state.conversations,
            "messages": state.messages, "runs": state.runs, "raw_bytes": state.rawBytes, "compressed_bytes": state.compressedBytes,
            "commit": state.commit, "key_generation": state.keyGeneration, "heads_entries": state.headsEntries,
        ]
    }

    static func describe(_ row: LogRow, _ name: String) throws -> FormatVectors.RowVector {
        var out = ByteBuffer()
        row.encode(into: &out)
        row.encodeLanes(into: &out) { $0.low }
        let key = Archive.key(log: row.id)
        return FormatVectors.RowVector(
            name: name, log: row.id.description, number: row.number, seq: row.seq, messages: row.messages,
            people: row.people.map {
                FormatVectors.RowVector.Person(
                    user: $0.user.string, joined: $0.joinedSeq, left: $0.leftSeq, deliveredTo: $0.deliveredTo, deliveredSeq: $0.deliveredSeq,
                    readTo: $0.readTo, readSeq: $0.readSeq)
            },
            open: row.open.map {
                FormatVectors.RowVector.Open(
                    message: $0.message.description, seq: $0.seq, author: $0.author, chunks: $0.chunks, joinedBytes: $0.joinedBytes)
            },
            slices: row.slices.map {
                FormatVectors.RowVector.Slice(run: $0.run, index: $0.index, firstSeq: $0.firstSeq, count: $0.count, messages: $0.messages)
            },
            tree: row.tree.hashes.map(\.hex),
            lanes: row.lanes.map {
                FormatVectors.RowVector.Lane(
                    replica: $0.replica.low, mark: $0.mark,
                    answered: $0.answered.map {
                        switch $0.answer {
                        case .refused(let refusal):
                            FormatVectors.RowVector.Answered(counter: $0.counter, code: refusal.code.rawValue, detail: refusal.detail)
                        case .duplicate(let seq): FormatVectors.RowVector.Answered(counter: $0.counter, code: "duplicate", detail: String(seq))
                        }
                    })
            }, key: hex(key), bytes: hex(Archive.sealed(key, out.array())))
    }
}
