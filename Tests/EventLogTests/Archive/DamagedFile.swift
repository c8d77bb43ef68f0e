#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

@testable import EventLog

/// A closed LMDB file that is damaged in place, judged, and mended again.
struct DamagedFile: ~Copyable {
    enum Verdict: Equatable {
        case reported
        /// liblmdb reads this many entries otherwise than before; nil if not even their numbers are the same. Without a signal, at least.
        case passed(differences: Int?)

        /// It was found, or did no harm that a record's own checksum would not find.
        var isAcceptable: Bool { self == .reported || self == .passed(differences: 0) || self == .passed(differences: 1) }
    }

    let file: LMDBFile
    let bytes: [UInt8]
    let content: LMDBFile.Content
    private let descriptor: CInt

    init(_ file: LMDBFile) throws {
        file.close()
        self.file = file
        content = try LMDBFile.readAll(directory: file.directory)
        descriptor = open(file.path, O_RDWR)
        var status = stat()
        fstat(descriptor, &status)
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        pread(descriptor, &bytes, bytes.count, 0)
        self.bytes = bytes
    }

    deinit { close(descriptor) }

    var pageCount: Int { bytes.count / 4096 }

    func page(_ number: Int) -> [UInt8] { Array(bytes[(number * 4096)..<(number * 4096 + 4096)]) }

    func number(at offset: Int) -> Int { (0..<8).reduce(0) { $0 | Int(bytes[offset + $1]) << (8 * $1) } }

    func short(at offset: Int) -> Int { Int(bytes[offset]) | Int(bytes[offset + 1]) << 8 }

    /// Where the meta page lies that liblmdb uses.
    var newerMeta: Int { number(at: 144) < number(at: 4096 + 144) ? 4096 : 0 }

    /// The kinds of problems in the file with these parts overwritten.
    func kinds(writing patches: [(offset: Int, bytes: [UInt8])]) throws -> Set<DataFileProblem.Kind> {
        for patch in patches { pwrite(descriptor, patch.bytes, patch.bytes.count, off_t(patch.offset)) }
        defer {
            for patch in patches {
                pwrite(descriptor, Array(bytes[patch.offset..<(patch.offset + patch.bytes.count)]), patch.bytes.count, off_t(patch.offset))
            }
        }
        return Set(try DataFile(path: file.path).check().problems.map(\.kind))
    }

    /// What a check says of the file with these parts overwritten; if it says nothing, what liblmdb then reads.
    func verdict(writing patches: [(offset: Int, bytes: [UInt8])]) throws -> Verdict {
        for patch in patches { pwrite(descriptor, patch.bytes, patch.bytes.count, off_t(patch.offset)) }
        defer {
            for patch in patches {
                let original = Array(bytes[patch.offset..<(patch.offset + patch.bytes.count)])
                pwrite(descriptor, original, original.count, off_t(patch.offset))
            }
        }
        return try verdict()
    }

    func verdict(flipping bit: Int) throws -> Verdict {
        try verdict(writing: [(bit / 8, [bytes[bit / 8] ^ (1 << (bit % 8))])])
    }

    func verdict(truncatingTo size: Int) throws -> Verdict {
        ftruncate(descriptor, off_t(size))
        defer { pwrite(descriptor, Array(bytes[size...]), bytes.count - size, off_t(size)) }
        return try verdict()
    }

    private func verdict() throws -> Verdict {
        guard try DataFile(path: file.path).check().isSound else { return .reported }
        do {
            return .passed(differences: content.differences(from: try LMDBFile.readAll(directory: file.directory)))
        } catch let failure as LMDBFile.Failure {
            // A map of 8 TiB and more, as a damaged file may ask for, finds no room beside the thread sanitizer's own: that is an error, not a signal.
            return failure.code == ENOMEM && Self.hasThreadSanitizer ? .reported : .passed(differences: nil)
        }
    }

    private static let hasThreadSanitizer = dlsym(nil, "__tsan_init") != nil
}
