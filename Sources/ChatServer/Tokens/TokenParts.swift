import EventLog
import FoundationEssentials

/// A token's header, as far as it means something here.
struct TokenHeader: Decodable {
    var alg: String
    var kid: String?
    var typ: String?
    // Present or not is all that counts: they would have us trust what the token brings along.
    private var crit: Anything?
    private var jku: Anything?
    private var jwk: Anything?
    private var x5u: Anything?
    private var x5c: Anything?

    init(_ bytes: [UInt8]) throws(TokenVerifier.Flaw) {
        guard MemberNames.areUnique(in: bytes), let header = try? JSONDecoder().decode(Self.self, from: Data(bytes)) else { throw .malformed }
        guard header.crit == nil, header.jku == nil, header.jwk == nil, header.x5u == nil, header.x5c == nil else { throw .header }
        if let type = header.typ?.lowercased() {
            // RFC 7515, 4.1.9: mostly it is left out.
            let prefix = "application/"
            guard ["jwt", "at+jwt"].contains(type.hasPrefix(prefix) ? String(type.dropFirst(prefix.count)) : type) else { throw .header }
        }
        self = header
    }

    private struct Anything: Decodable {
        init(from decoder: any Decoder) throws {}
    }
}

/// A token's claims, as far as they mean something here.
struct TokenClaims: Decodable {
    var sub: String?
    var iss: String?
    /// Empty: it names nobody, which is not the same as none.
    var aud: [String]?
    var exp: Double?
    var nbf: Double?
    var service: Bool

    init(_ bytes: [UInt8]) throws(TokenVerifier.Flaw) {
        guard MemberNames.areUnique(in: bytes), let claims = try? JSONDecoder().decode(Self.self, from: Data(bytes)) else { throw .malformed }
        self = claims
    }

    private enum Key: String, CodingKey { case sub, iss, aud, exp, nbf, service }

    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        sub = try values.decodeIfPresent(String.self, forKey: .sub)
        // What is no text is no issuer that could be asked for.
        iss = try? values.decodeIfPresent(String.self, forKey: .iss)
        exp = try values.decodeIfPresent(Double.self, forKey: .exp)
        nbf = try values.decodeIfPresent(Double.self, forKey: .nbf)
        service = try values.decodeIfPresent(Bool.self, forKey: .service) ?? false
        // One name, or a list.
        if let one = try? values.decode(String.self, forKey: .aud) { aud = [one] } else { aud = try values.decodeIfPresent([String].self, forKey: .aud) }
    }
}

/// RFC 7515's base64: without padding, and strict, so that no two texts are the same token.
enum Base64URL {
    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        guard !text.contains(where: { $0 == "+" || $0 == "/" || $0 == "=" }) else { return nil }
        let padding = String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        return Base64.decode(String(text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }) + padding)
    }
}

/// Of two members with one name, readers disagree which counts: such an object is refused.
enum MemberNames {
    /// Whether the members of the outermost object have different names. What is malformed otherwise is for the decoder to find.
    static func areUnique(in bytes: [UInt8]) -> Bool {
        var names: Set<[UInt8]> = []
        var depth = 0
        var at = 0
        while at < bytes.count {
            switch bytes[at] {
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: "\""):
                var end = at + 1
                while end < bytes.count, bytes[end] != UInt8(ascii: "\"") {
                    end += bytes[end] == UInt8(ascii: "\\") ? 2 : 1
                }
                guard end < bytes.count else { return false }
                var next = end + 1
                while next < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[next]) { next += 1 }
                if depth == 1, next < bytes.count, bytes[next] == UInt8(ascii: ":") {
                    guard let name = name(bytes[at...end]), names.insert(name).inserted else { return false }
                }
                at = end
            default: break
            }
            at += 1
        }
        return true
    }

    /// What a text in quotes says: with escapes it can be spelt in many ways.
    private static func name(_ quoted: ArraySlice<UInt8>) -> [UInt8]? {
        guard quoted.contains(UInt8(ascii: "\\")) else { return Array(quoted.dropFirst().dropLast()) }
        return (try? JSONDecoder().decode(String.self, from: Data(quoted))).map { Array($0.utf8) }
    }
}
