import Foundation
import Interchange
import EventLog

/// Conversations that people had, as their texts.
struct Dialogues {
    private(set) var all: [(title: String, texts: [String])] = []
    private var next = 0

    init(_ folder: String) throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasSuffix(".jsonl.zst") }.sorted()
        for name in names {
            var file = try DialogueFile(InputFile.open("\(folder)/\(name)"))
            while let item = try file.nextItem() {
                guard case .event(let event, _) = item.outcome else { continue }
                switch event.content {
                case .conversationCreated(_, let title, _): all.append((title ?? "", []))
                case .messageSent(let message): all[all.count - 1].texts.append(message.text)
                default: break
                }
            }
        }
        // Busy rooms would fill many conversations with one.
        all.removeAll { $0.texts.count > 200 }
        guard !all.isEmpty else { throw DeviceError("\(folder) holds no dialogues") }
    }

    /// The next dialogues one behind the other, until there are so many texts.
    mutating func take(_ count: Int) -> (title: String, texts: [String]) {
        let title = all[next % all.count].title
        var texts: [String] = []
        while texts.count < count {
            texts += all[next % all.count].texts
            next += 1
        }
        return (title, Array(texts.prefix(count)))
    }
}
