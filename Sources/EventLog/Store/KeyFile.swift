internal import Crypto

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The file of the store's one key, which opens what the archive and the journal hold wrapped (docs/FORMAT.md, "key").
///
/// While secrets are wrapped anew it holds two keys; the archive says which counts.
struct KeyFile: Sendable {
    static let magic: UInt32 = 0x4B53_5643  // "CVSK"

    struct Key: Sendable {
        var generation: UInt64
        var secret: Hash256
    }

    var store: StoreID
    var current: Key
    var next: Key?
    /// The seed of the Ed25519 key that signs checkpoints.
    var signingSeed: Hash256

    static func path(_ directory: String) -> String { directory + "/key" }

    /// The key of which the archive says that it counts.
    func key(ofGeneration generation: UInt64) -> Key? { [current, next].compactMap(\.self).first { $0.generation == generation } }

    init(creating store: StoreID) {
        self.store = store
        current = Key(generation: 1, secret: .random())
        signingSeed = .random()
    }

    init(reading directory: String) throws {
        let path = Self.path(directory)
        let bytes: [UInt8]
        do {
            let file = try File(path, O_RDONLY)
            bytes = try file.read(min(try file.size, 4096), at: 0)
        } catch {
            throw error.isAbsent ? Self.damaged(path, "it is missing") : error.typed
        }
        guard bytes.count >= 16 else { throw Self.damaged(path, "it is too short") }
        self = try bytes.withUnsafeBytes { bytes in
            do {
                let end = bytes.count - 8
                var tail = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[end...]))
                guard try tail.fixed64() == XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[..<end]), seed: 0) else {
                    throw Self.damaged(path, "its checksum does not match")
                }
                var reader = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[..<end]))
                guard try reader.fixed32() == Self.magic else { throw Self.damaged(path, "it is no key file") }
                let version = try reader.fixed32()
                guard version <= Format.version else { throw Format.newer(path, version) }
                var file = KeyFile(creating: try reader.identifier())
                file.signingSeed = try reader.hash()
                file.current = Key(generation: try reader.fixed64(), secret: try reader.hash())
                if !reader.isAtEnd { file.next = Key(generation: try reader.fixed64(), secret: try reader.hash()) }
                guard reader.isAtEnd else { throw Self.damaged(path, "it is too long") }
                // Numbers that no store reaches: the next one counts on from them.
                guard max(file.current.generation, file.next?.generation ?? 0) < 1 << 60 else { throw Self.damaged(path, "its generation is no number") }
                return file
            } catch is CodecError {
                throw Self.damaged(path, "it is too short")
            }
        }
    }

    private static func damaged(_ path: String, _ what: String) -> EventLogError {
        EventLogError(.damaged, "\(path): \(what). Without it heads, proofs and erasure cannot be had; restore it from a copy of the store")
    }

    /// Replaces the file: write, sync, rename, sync the directory. The old bytes are overwritten before their name goes.
    func write(to directory: String) throws {
        var out = ByteBuffer(capacity: 256)
        out.put(fixed32: Self.magic)
        out.put(fixed32: Format.version)
        out.put(store)
        signingSeed.withUnsafeBytes { out.put($0) }
        for key in [current, next].compactMap({ $0 }) {
            out.put(fixed64: key.generation)
            key.secret.withUnsafeBytes { out.put($0) }
        }
        out.put(fixed64: XXH64.hash(out.bytes, seed: 0))
        let path = Self.path(directory)
        let new = path + ".new"
        do {
            let file = try File(new, O_RDWR | O_CREAT | O_TRUNC)
            try file.write(out.bytes, at: 0)
            try file.syncAll()
            let old = try? File(path, O_RDWR)
            try Directory.rename(new, to: path)
            try Directory.sync(directory)
            if let old {
                // No name leads here any more; whoever reads the disk's free blocks finds zeros.
                let zeros = [UInt8](repeating: 0, count: try old.size)
                try zeros.withUnsafeBytes { try old.write($0, at: 0) }
                try old.syncAll()
            }
        } catch let error as SystemError {
            throw error.typed
        }
    }
}

extension ByteReader {
    mutating func hash() throws(CodecError) -> Hash256 {
        guard let hash = Hash256(try take(Hash256.byteCount)) else { throw CodecError(.badValue) }
        return hash
    }
}

/// Wraps secrets under the store key: AES-GCM with a random nonce, bound to what the secret is for.
enum Wrapping {
    static func wrap(_ secret: [UInt8], key: Hash256, for label: String) throws -> [UInt8] {
        let box = try AES.GCM.seal(secret, using: SymmetricKey(data: key.bytes), authenticating: Array(label.utf8))
        return Array(box.combined!)
    }

    static func unwrap(_ bytes: UnsafeRawBufferPointer, key: Hash256, for label: String) throws -> [UInt8] {
        let box = try AES.GCM.SealedBox(combined: Array(bytes))
        return Array(try AES.GCM.open(box, using: SymmetricKey(data: key.bytes), authenticating: Array(label.utf8)))
    }
}

/// The version of everything on disk.
enum Format {
    static let version: UInt32 = 1

    static func newer(_ path: String, _ version: UInt32) -> EventLogError {
        EventLogError(.newerFormat, "\(path) has format version \(version); this convstore reads up to version \(Self.version): use a newer convstore")
    }
}
