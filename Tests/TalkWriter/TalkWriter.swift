import ConversationStore
import Interchange
import StoreTesting

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Appends random talk to a store until it is killed: `TalkWriter STORE SEED JOURNAL-BYTES [rebuild]`; or a file's events, over and over what is
/// there already: `TalkWriter STORE import JOURNAL-BYTES FILE`. Or reads it, and keeps what it sees: `TalkWriter STORE read 0`.
@main struct TalkWriter {
    static func main() throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 4, let journal = Int(arguments[3]) else { exit(64) }
        if arguments[2] == "read" { return try keep(arguments[1]) }
        let options = ConversationStoreOptions(
            durability: .relaxed(interval: .milliseconds(5)), journalBytesMax: journal, projections: [KindCounts.self])
        let store = try ConversationStore.open(at: arguments[1], options: options)
        if arguments[2] == "import" { return try take(arguments[4], into: store) }
        guard let seed = UInt64(arguments[2]) else { exit(64) }
        var talk = Talk(seed: seed, conversations: 5)
        // Conversations of earlier runs go on.
        var known: [ConversationID] = []
        try store.log.forEachLog { summary in
            if case .conversation(let id) = summary.log { known.append(id) }
            return true
        }
        for id in known.suffix(4) {
            guard let page = try store.timeline(of: id, limit: 60), let user = Talk.users.first(where: { (try? store.lobbyRow(of: id, for: $0)) != nil }),
                let row = try store.lobbyRow(of: id, for: user)
            else { continue }
            talk.adopt(page, participants: row.participants)
        }
        say("ready")
        var batches = 0
        while true {
            let batch = (0..<talk.random.below(40) + 1).map { _ in Submission(talk.next()) }
            _ = try store.log.appendBlocking(batch)
            batches += 1
            if arguments.count > 4, batches % 20 == 0 { try store.rebuild() }
        }
    }

    private static func keep(_ path: String) throws {
        let reader = try ConversationStore.open(at: path, options: ConversationStoreOptions(access: .readOnly))
        say("ready")
        withExtendedLifetime(reader) { while true { pause() } }
    }

    private static func say(_ word: String) {
        print(word)
        fflush(nil)
    }

    private static func take(_ path: String, into store: ConversationStore) throws {
        var origins = ImportOrigins(digest: try InputFile.open(path).contentDigest())
        var lines = try LineReader(InputFile.open(path))
        var decoder = EventLineDecoder()
        var batch: [Submission] = []
        say("ready")
        while try lines.advance() {
            if lines.isBlank || lines.isTooLong { continue }
            do throws(Refusal) {
                let line = try decoder.decode(lines.withLine { Array($0) })
                batch.append(Submission(line.event, origin: origins.origin(in: line.event.log, at: line.at)))
            } catch {
                if let log = decoder.log { origins.count(log) }
            }
            if batch.count == 40 {
                _ = try store.log.appendBlocking(batch)
                batch = []
                say("taken")
            }
        }
        _ = try store.log.appendBlocking(batch)
        try store.close()
    }
}
