import Crypto
import Foundation
import Testing

/// `convstore serve` on a free port of loopback, killed with the value if it was not ended.
final class ServedHub {
    let store: String
    let url: String
    private let process: Process
    private let files: Folder

    /// Streams that nobody goes on with stay open: a test compares with what the hub was given.
    init(_ store: String, _ tokens: [String] = ["--insecure-any-user", "--service-user", "backup"]) throws {
        self.store = store
        let arguments = ["serve", "--store", store, "--listen", "127.0.0.1:0", "--abandoned-after", "86400"] + tokens
        let (process, _, _, files) = try Program.start(arguments)
        (self.process, self.files) = (process, files)
        _ = Program.eventually { try files.text("output").hasSuffix("\n") || !process.isRunning }
        let line = try files.text("output")
        url = line.dropFirst("listening on ".count).trimmingCharacters(in: .newlines)
        try #require(line.hasPrefix("listening on ws://127.0.0.1:"), "\(line)\(try files.text("errors"))")
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    func end() -> Int32 { Program.interrupt(process) }
}

/// A replica of a user, at the terminal.
struct Device {
    let user: String
    let store: String

    init(_ user: String, in folder: Folder, _ name: String? = nil) { (self.user, store) = (user, folder[name ?? user]) }

    @discardableResult
    func sync(_ hub: ServedHub, _ arguments: String...) throws -> [String: Any] {
        let outcome = try Program.run(["sync", "--store", store, "--server", hub.url, "--user", user, "--json"] + arguments)
        try #require(outcome.status == 0, "\(outcome.errors)")
        return try outcome.object()
    }

    /// Runs a command on the store, as JSON.
    func run(_ command: String, _ arguments: String...) throws -> Program.Outcome { try Program.run([command, "--store", store, "--json"] + arguments) }

    /// The same, as the user. Answers with its object.
    @discardableResult
    func act(_ command: String, _ arguments: String...) throws -> [String: Any] {
        let outcome = try Program.run([command, "--store", store, "--json", "--author", user] + arguments)
        try #require(outcome.status == 0, "\(command): \(outcome.errors)")
        return try outcome.object()
    }

    var outbox: [[String: Any]] { get throws { try run("outbox").objects() } }

    func states(_ conversation: String) throws -> [String] {
        try run("timeline", conversation).objects().compactMap { $0["state"] as? String }
    }
}

/// What a store shows of itself, line by line.
enum Shown {
    static func heads(_ store: String) throws -> Set<Substring> { Set(try Program.run("audit", "head", "--store", store).lines) }

    static func lobby(_ store: String, _ user: String) throws -> [Substring] {
        try Program.run("lobby", "--store", store, "--user", user, "--limit", "10000", "--json").lines
    }

    static func timeline(_ store: String, _ conversation: String) throws -> [Substring] {
        try Program.run("timeline", "--store", store, conversation, "--limit", "10000", "--json").lines
    }

    static func conversations(_ lobby: [Substring]) throws -> [String] {
        try lobby.compactMap { try (JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])?["conversation_id"] as? String }
    }
}

/// Tokens as an application would issue them (HS256).
enum Token {
    static let secret = "a secret of thirty-two bytes or more"

    static func of(_ user: String, secret: String = Token.secret, seconds: Double = 600) -> String {
        let claims = #"{"sub":"\#(user)","exp":\#(Int(Date().timeIntervalSince1970 + seconds))}"#
        let text = base64(Data(#"{"alg":"HS256","typ":"JWT"}"#.utf8)) + "." + base64(Data(claims.utf8))
        let code = HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: SymmetricKey(data: Data(secret.utf8)))
        return text + "." + base64(Data(code))
    }

    private static func base64(_ data: Data) -> String {
        data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
