/// One group commit in the journal (docs/FORMAT.md, "Frame").
struct Frame {
    static let magic: UInt32 = 0x464A_5643  // "CVJF"
    static let headerBytes = 80

    enum Purpose: UInt32 {
        case events = 0
        /// The last frame of a store that was closed; its payload is empty.
        case close = 1
        /// Continues the chain in a new file after others were wiped.
        case mark = 2
    }

    struct Header {
        var payloadBytes: Int
        var checksum: UInt64
        var store: StoreID
        /// Counts the files ever begun (``Generation``).
        var generation: UInt64
        /// Counts the frames ever written.
        var number: UInt64
        /// The last frame that was known synced when this one was written.
        var syncedThrough: UInt64
        var previousChecksum: UInt64
        var firstPosition: Position
        var events: Int
        var purpose: Purpose

        var frameBytes: Int { (Frame.headerBytes + payloadBytes + 7) & ~7 }
    }

    /// Numbers of the files that were ever begun.
    ///
    /// The first is random and never told: whoever writes messages could put a frame's bytes into one, and behind the last frame of a file that is used again
    /// such bytes may lie where a frame would. Of what nobody could guess the generation, nothing is taken for a frame.
    enum Generation {
        private static let least: UInt64 = 1 << 60

        static func after(_ last: UInt64) -> UInt64 { last < least ? .random(in: least..<2 * least) : last + 1 }

        /// Whether a file that was begun behind another has this one.
        static func isNext(_ generation: UInt64, after last: UInt64) -> Bool { last < least ? generation > last : generation == last + 1 }

        /// Which a store's files may have had shortly before and since those that are known.
        static func around(_ known: some Collection<UInt64>) -> ClosedRange<UInt64>? {
            guard let first = known.min(), let last = known.max() else { return nil }
            return first - min(first, 1024)...last + 4
        }
    }

    /// What the bytes at an offset say of the generation, if they look like a frame of this store: it may be damaged.
    static func generation(_ bytes: UnsafeRawBufferPointer, at offset: Int, store: StoreID) -> UInt64? {
        guard offset >= 0, bytes.count - offset >= headerBytes else { return nil }
        var reader = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[offset...]))
        guard (try? reader.fixed32()) == magic, (try? reader.fixed32()) != nil, (try? reader.fixed64()) != nil,
            let owner: StoreID = try? reader.identifier(), owner == store, let generation = try? reader.fixed64(), generation < numbersMax
        else { return nil }
        return generation
    }

    /// Numbers that no store reaches: what follows may count on from them.
    private static let numbersMax: UInt64 = 1 << 62

    /// Reads and checks the frame at an offset; `nil` if there is none that is whole and of this store.
    static func read(_ bytes: UnsafeRawBufferPointer, at offset: Int, store: StoreID) -> Header? {
        guard offset >= 0, bytes.count - offset >= headerBytes else { return nil }
        var reader = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[offset...]))
        guard let magic = try? reader.fixed32(), magic == Self.magic, let payload = try? reader.fixed32(), Int(payload) <= bytes.count - offset - headerBytes,
            let checksum = try? reader.fixed64(), checksum == Self.checksum(bytes, at: offset, payloadBytes: Int(payload)),
            let owner: StoreID = try? reader.identifier(), owner == store, let generation = try? reader.fixed64(), let number = try? reader.fixed64(),
            let synced = try? reader.fixed64(), let previous = try? reader.fixed64(), let position = try? reader.fixed64(),
            let events = try? reader.fixed32(), let purpose = (try? reader.fixed32()).flatMap(Purpose.init(rawValue:))
        else { return nil }
        let header = Header(
            payloadBytes: Int(payload), checksum: checksum, store: owner, generation: generation, number: number, syncedThrough: synced,
            previousChecksum: previous, firstPosition: position, events: Int(events), purpose: purpose)
        guard 1..<numbersMax ~= position, 1..<numbersMax ~= number, generation < numbersMax else { return nil }
        // The padding belongs to the frame: nothing of a file is unchecked.
        guard offset + header.frameBytes <= bytes.count else { return nil }
        for index in offset + headerBytes + Int(payload)..<offset + header.frameBytes where bytes[index] != 0 { return nil }
        return header
    }

    private static func checksum(_ bytes: UnsafeRawBufferPointer, at offset: Int, payloadBytes: Int) -> UInt64 {
        let head = XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[offset + 16..<offset + headerBytes]), seed: UInt64(payloadBytes))
        return XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[offset + headerBytes..<offset + headerBytes + payloadBytes]), seed: head)
    }

    /// Completes a frame whose payload was written behind room for the header; returns its checksum.
    static func seal(_ frame: inout ByteBuffer, _ header: Header) -> UInt64 {
        let payload = frame.count - headerBytes
        frame.set(fixed32: magic, at: 0)
        frame.set(fixed32: UInt32(payload), at: 4)
        frame.set(fixed64: header.store.high.byteSwapped, at: 16)
        frame.set(fixed64: header.store.low.byteSwapped, at: 24)
        frame.set(fixed64: header.generation, at: 32)
        frame.set(fixed64: header.number, at: 40)
        frame.set(fixed64: header.syncedThrough, at: 48)
        frame.set(fixed64: header.previousChecksum, at: 56)
        frame.set(fixed64: header.firstPosition, at: 64)
        frame.set(fixed32: UInt32(header.events), at: 72)
        frame.set(fixed32: header.purpose.rawValue, at: 76)
        let sum = checksum(frame.bytes, at: 0, payloadBytes: payload)
        frame.set(fixed64: sum, at: 8)
        frame.pad(to: 8)
        return sum
    }
}
