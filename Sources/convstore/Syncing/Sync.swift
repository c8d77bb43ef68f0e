import ArgumentParser
import ConversationStore
import Replication
import ReplicationWebSocket

struct Sync: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Syncs a replica with its hub; makes the replica if there is none.",
        discussion: """
            convstore sync --store phone --server ws://127.0.0.1:8080/v1/sync --user ada --token "$TOKEN"

            Ends when everything is held and the outbox is answered; with --follow it stays connected. Meanwhile others can \
            read the replica, and not write into it (75). What was refused stays in the outbox as failed: see `convstore outbox`. \
            Exit codes besides the usual: 65 if the hub's history contradicts what it showed before, 69 if the hub cannot be reached, \
            77 if it does not take the token.
            """)

    @OptionGroup var store: StoreOption
    @OptionGroup var server: ServerOptions
    @Option(help: ArgumentHelp("Whose replica it is.", valueName: "name"))
    var user: String
    @Flag(help: "Stay connected, and connect again.")
    var follow = false
    @Option(help: ArgumentHelp("\(ScopeName.forms); all, if left out.", valueName: "scope"), transform: ScopeName.init(typed:))
    var scope: ScopeName = ScopeName(scope: .mine)
    @Flag(help: "First read all that the replica holds, and ask the hub for what is damaged.")
    var verify = false
    @Flag(help: "Print one JSON object a line: at the end, and with --follow whenever all is held.")
    var json = false

    func run() throws {
        let user = try UserID.typed(user, as: "--user")
        try Syncing(path: store.path, user: user, scope: scope.scope, follows: follow, json: json, verifies: verify).run(server)
    }
}

struct Follow: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Keeps a full copy of a hub, all conversations, for backup and analysis.",
        discussion: """
            Needs a service account's token. The copy is a replica: it resumes where it was, is checked against the hub's heads and signed checkpoints, and \
            is read like any store. It stays connected until it is ended; --once ends when everything is held.
            """)

    @OptionGroup var store: StoreOption
    @OptionGroup var server: ServerOptions
    @Option(help: ArgumentHelp("The service account's name.", valueName: "name"))
    var user = "service"
    @Flag(help: "End when everything is held.")
    var once = false
    @Flag(help: "First read all that the copy holds, and ask the hub for what is damaged.")
    var verify = false
    @Flag(help: "Print one JSON object a line whenever all is held.")
    var json = false

    func run() throws {
        let user = try UserID.typed(user, as: "--user")
        try Syncing(path: store.path, user: user, scope: .everything, follows: !once, json: json, verifies: verify).run(server)
    }
}

/// Where the hub is, and who we are to it.
struct ServerOptions: ParsableArguments {
    @Option(name: .customLong("server"), help: ArgumentHelp("The hub: ws://HOST:PORT/v1/sync, or wss:// with TLS.", valueName: "url"))
    var url: String
    @Option(help: ArgumentHelp("The token; others on this machine may see it here: prefer --token-file.", valueName: "token"))
    var token: String?
    @Option(help: ArgumentHelp("A file with the token, read again for each connection.", valueName: "file"))
    var tokenFile: String?
    @Option(help: ArgumentHelp("Trust these certificates (PEM) instead of the system's.", valueName: "file"))
    var tlsCa: String?

    func validate() throws {
        guard token == nil || tokenFile == nil else { throw ValidationError("--token and --token-file exclude each other.") }
        // Whoever names a certificate believes that the connection is encrypted.
        guard tlsCa == nil || !url.lowercased().hasPrefix("ws://") else { throw ValidationError("--tls-ca is for wss:// only.") }
        guard token.map({ $0.utf8.count <= Replica.tokenBytesMax }) ?? true else {
            throw ValidationError("--token has more than the \(Replica.tokenBytesMax) bytes that a hub takes.")
        }
    }

    func options() -> SyncRun.Options {
        var options = SyncRun.Options(url: url) { [token, tokenFile] in
            guard let tokenFile else { return token ?? "" }
            return try SmallFile.read(tokenFile)
        }
        options.renewsToken = tokenFile != nil
        options.client.certificateAuthority = tlsCa
        return options
    }
}

/// What `--scope` takes.
struct ScopeName {
    var scope: Scope

    static let forms = "all, newest:CONVERSATIONS:MESSAGES, or conversations' whole ids with commas between"

    init(scope: Scope) { self.scope = scope }

    init(typed argument: String) throws {
        guard let name = Self(argument) else { throw ValidationError("It is \(Self.forms).") }
        self = name
    }

    private init?(_ argument: String) {
        if argument == "all" {
            scope = .mine
            return
        }
        let parts = argument.split(separator: ":", omittingEmptySubsequences: false)
        if parts.count == 3, parts[0] == "newest" {
            guard let conversations = UInt64(parts[1]), let messages = UInt64(parts[2]), conversations > 0 else { return nil }
            scope = .newest(conversations: conversations, messages: messages)
            return
        }
        let ids = argument.split(separator: ",").map { ConversationID($0) }
        guard !ids.isEmpty, !ids.contains(nil) else { return nil }
        scope = .conversations(ids.compactMap { $0 })
    }
}
