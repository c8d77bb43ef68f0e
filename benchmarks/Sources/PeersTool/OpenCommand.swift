import ArgumentParser
import EventLog
import FoundationEssentials
import Peers

struct OpenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open", abstract: "Measures opening a store, and the memory of a process that has it open and 100 conversations active.",
        discussion: "It appends to the store. Each step needs a process of its own, so that none pays for another: --fill, --list >FILE, --conversations FILE.")

    @Option(help: "The store.") var store: String
    @Option(help: "Makes the store of these events (JSONL), and ends.") var fill: String?
    @Option(help: "Prints the ids of so many conversations, those active last, and ends.") var list: Int?
    @Option(help: "A file with the ids of the conversations that are to be active.") var conversations: String?

    func run() async throws {
        if let fill { return try OpenTrial.fill(store, try Loader.load(fill)) }
        if let list {
            for id in try OpenTrial.active(store, list) { print(id) }
            return
        }
        let lines = try conversations.map { try String(contentsOf: URL(filePath: $0), encoding: .utf8).split(separator: "\n") } ?? []
        print(try await OpenTrial.run(store, lines.compactMap { ConversationID($0) }).text)
    }
}
