import EventLog
import FoundationEssentials

/// Reads the benchmark's JSONL into memory, before anything is timed.
public enum Loader {
    private struct Line: Decodable {
        var type: String
        var conversationId: String
        var author: String
        var at: String
        var messageId: String?
        var text: String?
        var role: String?
        var streaming: Bool?
        var replyTo: String?
        var index: UInt32?
        var finishReason: String?
        var usage: Usage?
        var reason: String?
        var upTo: String?
        var kind: String?
        var title: String?
        var participants: [String]?
    }

    private struct Usage: Decodable {
        var inputTokens: UInt64
        var outputTokens: UInt64
    }

    public static func load(_ path: String, limit: Int = .max) throws -> [Item] {
        let data = try Data(contentsOf: URL(filePath: path), options: .alwaysMapped)
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        var items: [Item] = []
        var rest = data[...]
        while items.count < limit, !rest.isEmpty {
            let end = rest.firstIndex(of: UInt8(ascii: "\n")) ?? rest.endIndex
            do {
                items.append(try item(decoder.decode(Line.self, from: rest[rest.startIndex..<end])))
            } catch {
                throw EngineError("\(path): line \(items.count + 1): \(error)")
            }
            rest = rest[min(end + 1, rest.endIndex)...]
        }
        return items
    }

    private static func item(_ line: Line) throws -> Item {
        let content: Event.Content
        switch line.type {
        case "message.sent":
            let role: Event.Role =
                switch line.role {
                case "user": .user
                case "assistant": .assistant
                case "system": .system
                default: .tool
                }
            content = .messageSent(
                .init(
                    id: try id(line.messageId), role: role, text: line.text ?? "", isStreaming: line.streaming ?? false,
                    replyTo: try line.replyTo.map { try id($0) }))
        case "chunk.appended": content = .chunkAppended(message: try id(line.messageId), index: line.index ?? 0, text: line.text ?? "")
        case "message.completed":
            let usage = line.usage.map { Event.Usage(inputTokens: $0.inputTokens, outputTokens: $0.outputTokens) }
            content = .messageCompleted(message: try id(line.messageId), finishReason: line.finishReason, usage: usage)
        case "message.interrupted": content = .messageInterrupted(message: try id(line.messageId), reason: line.reason ?? "")
        case "receipt.delivered": content = .receiptDelivered(upTo: try id(line.upTo))
        case "receipt.read": content = .receiptRead(upTo: try id(line.upTo))
        case "conversation.created":
            let kind: Event.ConversationKind = line.kind == "direct" ? .direct : line.kind == "group" ? .group : .assistant
            content = .conversationCreated(kind: kind, title: line.title, participants: try (line.participants ?? []).map(user))
        default: throw EngineError("\(line.type) is not part of the benchmark's mix")
        }
        return Item(
            event: Event(conversation: try id(line.conversationId), author: try user(line.author), content: content),
            milliseconds: try milliseconds(line.at))
    }

    private static func id<Tag>(_ text: String?) throws -> Identifier<Tag> {
        guard let text, let id = Identifier<Tag>(text) else { throw EngineError("not an id") }
        return id
    }

    private static func user(_ text: String) throws -> UserID {
        guard let user = UserID(text) else { throw EngineError("not a user id") }
        return user
    }

    /// `2026-01-05T08:00:00.000Z`, as dataset.py writes it.
    private static func milliseconds(_ text: String) throws -> UInt64 {
        let digits = text.utf8.compactMap { 48...57 ~= $0 ? Int($0) - 48 : nil }
        guard digits.count == 17 else { throw EngineError("not a time of the data set") }
        func number(_ range: Range<Int>) -> Int { digits[range].reduce(0) { $0 * 10 + $1 } }
        let (year, month, day) = (number(0..<4), number(4..<6), number(6..<8))
        // Days since 1970 in the proleptic Gregorian calendar (Howard Hinnant, chrono-Compatible Low-Level Date Algorithms).
        let shifted = month > 2 ? year : year - 1
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
        return UInt64(((days * 24 + number(8..<10)) * 60 + number(10..<12)) * 60 + number(12..<14)) * 1000 + UInt64(number(14..<17))
    }
}
