#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

extension ProofFile {
    /// The file's text: one JSON object on one line, ending in a newline.
    public var json: String {
        var fields: [(String, JSONText)] = [("format", .string(Self.format))]
        switch self {
        case .inclusion(let file):
            fields += [("kind", .string("inclusion")), ("log", .string(file.head.log.description)), ("seq", .number(file.seq))]
            fields.append(("envelope", .string(Base64.encode(file.envelope))))
            switch file.body {
            case .shown(let body, let salt): fields += [("body", .string(Base64.encode(body))), ("salt", .hash(salt))]
            case .hidden(let commitment): fields.append(("commitment", .hash(commitment)))
            }
            fields += [("size", .number(file.head.size)), ("root", .hash(file.head.root)), ("proof", .hashes(file.proof))]
            if let attestation = file.attestation { fields.append(("attestation", attestation.json)) }
        case .consistency(let file):
            fields += [("kind", .string("consistency")), ("log", .string(file.log.description))]
            fields += [
                ("size1", .number(file.size1)), ("root1", .hash(file.root1)), ("size2", .number(file.size2)), ("root2", .hash(file.root2)),
            ]
            fields.append(("proof", .hashes(file.proof)))
            if let attestation = file.attestation { fields.append(("attestation", attestation.json)) }
        case .checkpoints(let file):
            fields += [
                ("kind", .string("checkpoints")), ("checkpoint1", .string(file.checkpoint1)), ("checkpoint2", .string(file.checkpoint2)),
            ]
            fields += [("key", .string(file.key.description)), ("proof", .hashes(file.proof))]
        }
        return JSONText.object(fields).text + "\n"
    }

    /// Reads a file, strictly: every field known and well-formed. Nothing in it is checked yet.
    public init(json: [UInt8]) throws(ProofError) {
        guard json.count <= Self.bytesMax else { throw ProofError(.file, "a proof is no longer than \(Self.bytesMax) bytes") }
        do {
            self = try JSONDecoder().decode(Decoded.self, from: Data(json)).file
        } catch let error as ProofError {
            throw error
        } catch {
            throw ProofError(.file, "the file is not a JSON object with the fields of a proof")
        }
    }
}

extension ProofFile.Attestation {
    fileprivate var json: JSONText {
        .object([
            ("index", .number(index)), ("proof", .hashes(proof)), ("checkpoint", .string(checkpoint)), ("key", .string(key.description)),
        ])
    }
}

extension JSONText {
    fileprivate static func hash(_ hash: Hash256) -> Self { .string(hash.base64) }
    fileprivate static func hashes(_ hashes: [Hash256]) -> Self { .array(hashes.map { .hash($0) }) }
}

/// A `ProofFile` by its fields.
private struct Decoded: Decodable {
    let file: ProofFile

    init(from decoder: any Decoder) throws {
        let fields = try Fields(decoder)
        let format = try fields.string("format")
        guard format == ProofFile.format else { throw ProofError(.file, "the format is not \(ProofFile.format)") }
        switch try fields.string("kind") {
        case "inclusion":
            try fields.allow([
                "format", "kind", "log", "seq", "envelope", "body", "salt", "commitment", "size", "root", "proof", "attestation",
            ])
            let head = Head(log: try fields.log(), size: try fields.number("size"), root: try fields.hash("root"))
            let body: ProofFile.Inclusion.Body
            if fields.has("commitment") {
                guard !fields.has("body"), !fields.has("salt") else {
                    throw ProofError(.file, "either the body is shown or its commitment")
                }
                body = .hidden(commitment: try fields.hash("commitment"))
            } else {
                body = .shown(try fields.bytes("body"), salt: try fields.hash("salt"))
            }
            file = .inclusion(
                ProofFile.Inclusion(
                    seq: try fields.number("seq"), envelope: try fields.bytes("envelope"), body: body, head: head,
                    proof: try fields.hashes("proof"), attestation: try fields.attestation()))
        case "consistency":
            try fields.allow(["format", "kind", "log", "size1", "root1", "size2", "root2", "proof", "attestation"])
            let log = try fields.log()
            file = .consistency(
                ProofFile.Consistency(
                    from: Head(log: log, size: try fields.number("size1"), root: try fields.hash("root1")),
                    to: Head(log: log, size: try fields.number("size2"), root: try fields.hash("root2")),
                    proof: try fields.hashes("proof"), attestation: try fields.attestation()))
        case "checkpoints":
            try fields.allow(["format", "kind", "checkpoint1", "checkpoint2", "key", "proof"])
            file = .checkpoints(
                ProofFile.Checkpoints(
                    checkpoint1: try fields.string("checkpoint1"), checkpoint2: try fields.string("checkpoint2"),
                    key: try VerifierKey(fields.string("key")), proof: try fields.hashes("proof")))
        default:
            throw ProofError(.file, "this kind of proof is not known here")
        }
    }
}

private struct DecodedAttestation: Decodable {
    let attestation: ProofFile.Attestation

    init(from decoder: any Decoder) throws {
        let fields = try Fields(decoder)
        try fields.allow(["index", "proof", "checkpoint", "key"])
        attestation = ProofFile.Attestation(
            index: try fields.number("index"), proof: try fields.hashes("proof"), checkpoint: try fields.string("checkpoint"),
            key: try VerifierKey(fields.string("key")))
    }
}

/// The fields of one JSON object, each read as just what it must be.
private struct Fields {
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    private let container: KeyedDecodingContainer<Name>

    init(_ decoder: any Decoder) throws { container = try decoder.container(keyedBy: Name.self) }

    func allow(_ names: Set<String>) throws {
        guard container.allKeys.allSatisfy({ names.contains($0.stringValue) }) else {
            throw ProofError(.file, "the file has a field that is not known here")
        }
    }

    func has(_ name: String) -> Bool { container.contains(Name(stringValue: name)) }

    func string(_ name: String) throws -> String { try value(name, of: String.self) }
    func number(_ name: String) throws -> UInt64 { try value(name, of: UInt64.self) }

    func bytes(_ name: String) throws -> [UInt8] {
        guard let bytes = Base64.decode(try string(name)) else { throw ProofError(.file, "the field \(name) is not base64") }
        return bytes
    }

    func hash(_ name: String) throws -> Hash256 {
        guard let hash = Hash256(base64: try string(name)) else {
            throw ProofError(.file, "the field \(name) is not the base64 of 32 bytes")
        }
        return hash
    }

    func hashes(_ name: String) throws -> [Hash256] {
        try value(name, of: [String].self).map {
            guard let hash = Hash256(base64: $0) else {
                throw ProofError(.file, "the field \(name) holds what is not the base64 of 32 bytes")
            }
            return hash
        }
    }

    func log() throws -> LogID {
        let text = try string("log")
        let prefix = "user:"
        if text.utf8.starts(with: prefix.utf8), let user = UserID(String(decoding: text.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)) {
            return .user(user)
        }
        guard let id = ConversationID(text) else { throw ProofError(.file, "the field log is no conversation's id and no user") }
        return .conversation(id)
    }

    func attestation() throws -> ProofFile.Attestation? {
        has("attestation") ? try value("attestation", of: DecodedAttestation.self).attestation : nil
    }

    private func value<Value: Decodable>(_ name: String, of type: Value.Type) throws -> Value {
        do {
            return try container.decode(type, forKey: Name(stringValue: name))
        } catch let error as ProofError {
            throw error
        } catch {
            throw ProofError(.file, "the field \(name) is missing or of the wrong kind")
        }
    }
}
