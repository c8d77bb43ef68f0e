import Foundation

@testable import EventLog
@testable import Projections

/// The file docs/vectors/projections.json, which other implementations read too (docs/FORMAT.md, "Vectors").
struct RowVectors: Codable, Equatable {
    static let path = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "docs/vectors/projections.json")

    /// Whether `make docs-vectors` asks for the file to be written anew.
    static let isWriting = ProcessInfo.processInfo.environment["CONVSTORE_WRITE_VECTORS"] != nil

    static func read() throws -> Self {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(Self.self, from: Data(contentsOf: path))
    }

    func write() throws {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(self) + [0x0A]).write(to: Self.path)
    }

    struct Record: Codable, Equatable {
        struct Generation: Codable, Equatable {
            var version: UInt32, number: UInt32, position: UInt64
        }
        var projection: String
        var live: Generation?
        var building: Generation?
        var key: String
        var bytes: String
    }

    struct Stamp: Codable, Equatable {
        var time: String
        var replica: String
        var counter: UInt64
    }

    /// An attribute or preference, or without a name the title.
    struct Register: Codable, Equatable {
        var name: String?
        var value: String?
        var stamp: Stamp?
    }

    struct Conversation: Codable, Equatable {
        struct Person: Codable, Equatable {
            var user: String
            var isIn: Bool
            var deliveredTo: UInt64, readTo: UInt64, mark: UInt64, liveToMark: UInt64
        }
        struct Last: Codable, Equatable {
            var id: String
            var seq: UInt64
            var author: UInt32
            var role: UInt8, state: UInt8
            var sentAt: UInt64
            var snippet: String
        }
        struct Fence: Codable, Equatable {
            var firstSeq: UInt64, liveBefore: UInt64
        }
        var id: String
        var kind: UInt8
        var order: String
        var seq: UInt64
        var title: Register
        var attributes: [Register]
        var people: [Person]
        var messages: UInt64, live: UInt64
        var last: Last?
        var systems: [UInt64]
        var pages: UInt64, stride: UInt64, openFirstSeq: UInt64
        var fences: [Fence]
        var open: Page
        var key: String
        var bytes: String
    }

    struct Page: Codable, Equatable {
        /// Absent in the open page, which lies in its conversation's row.
        var conversation: String?
        var number: UInt64?
        var textBytes: Int
        var messages: [Message]
        var key: String?
        var bytes: String?
    }

    struct Message: Codable, Equatable {
        struct Reaction: Codable, Equatable {
            var emoji: String
            var author: UInt32
            var isOn: Bool
            var stamp: Stamp
        }
        var id: String
        var seq: UInt64
        var author: UInt32
        var role: UInt8, state: UInt8
        var isEdited: Bool, isErased: Bool
        var chunks: UInt32
        var sentAt: UInt64
        var text: String
        var replyTo: String?
        var finishReason: String?
        var inputTokens: UInt64?, outputTokens: UInt64?
        var interruptedReason: String?
        var edit: Stamp?
        var isEditErased: Bool?
        var parts: String?
        var reactions: [Reaction]
    }

    struct Member: Codable, Equatable {
        var user: String
        var conversation: String
        var isIn: Bool
        var preferences: [Register]
        var key: String
        var bytes: String
    }

    struct Stream: Codable, Equatable {
        var conversation: String
        var seq: UInt64
        var message: String
        var author: String
        var replica: String
        var key: String
        var bytes: String
    }

    var projection: String
    var version: UInt32
    var records: [Record]
    var conversations: [Conversation]
    var pages: [Page]
    var members: [Member]
    var streams: [Stream]
}

extension RowVectors.Stamp {
    init(_ stamp: Projections.Stamp) {
        self.init(time: clock(stamp.time), replica: stamp.replica.description, counter: stamp.counter)
    }
}

extension RowVectors.Register {
    init(_ name: String?, _ register: Projections.Register<String?>) {
        self.init(name: name, value: register.value, stamp: register.stamp.map { RowVectors.Stamp($0) })
    }
}

extension RowVectors.Record {
    init(_ projection: String, _ record: FoldRecord, key: [UInt8], bytes: [UInt8]) {
        func generation(_ one: FoldRecord.Generation?) -> Generation? {
            one.map { Generation(version: $0.version, number: $0.number, position: $0.position) }
        }
        self.init(
            projection: projection, live: generation(record.live), building: generation(record.building), key: hexadecimal(key), bytes: hexadecimal(bytes))
    }
}

extension RowVectors.Conversation {
    init(_ id: ConversationID, _ row: ConversationRow, key: [UInt8], bytes: [UInt8]) throws {
        self.init(
            id: id.description, kind: row.kind.rawValue, order: clock(row.order.rawValue), seq: row.seq, title: RowVectors.Register(nil, row.title),
            attributes: row.attributes.map { RowVectors.Register($0.name, $0.value) },
            people: row.people.map {
                Person(
                    user: $0.user.string, isIn: $0.isIn, deliveredTo: $0.deliveredTo, readTo: $0.readTo, mark: $0.mark, liveToMark: $0.liveToMark)
            },
            messages: row.messages, live: row.live,
            last: row.last.map {
                Last(
                    id: $0.id.description, seq: $0.seq, author: $0.author, role: $0.role.rawValue, state: $0.state.rawValue, sentAt: $0.sentAt,
                    snippet: $0.snippet)
            },
            systems: row.systems, pages: row.pages, stride: row.stride, openFirstSeq: row.openFirstSeq,
            fences: row.fences.map { Fence(firstSeq: $0.firstSeq, liveBefore: $0.liveBefore) }, open: try RowVectors.Page(row.open),
            key: hexadecimal(key), bytes: hexadecimal(bytes))
    }
}

extension RowVectors.Page {
    init(_ row: PageRow, _ place: PageKey? = nil, key: [UInt8]? = nil, bytes: [UInt8]? = nil) throws {
        var messages: [RowVectors.Message] = []
        try row.forEach { message in
            messages.append(RowVectors.Message(try message.row()))
            return true
        }
        self.init(
            conversation: place?.conversation.description, number: place?.number, textBytes: row.textBytes, messages: messages,
            key: key.map { hexadecimal($0) }, bytes: bytes.map { hexadecimal($0) })
    }
}

extension RowVectors.Message {
    init(_ message: MessageRow) {
        let rare = message.rare
        self.init(
            id: message.id.description, seq: message.seq, author: message.author, role: message.role.rawValue, state: message.state.rawValue,
            isEdited: message.isEdited, isErased: message.isErased, chunks: message.chunks, sentAt: message.sentAt, text: message.text,
            replyTo: rare?.replyTo?.description, finishReason: rare?.finishReason, inputTokens: rare?.usage?.inputTokens,
            outputTokens: rare?.usage?.outputTokens, interruptedReason: rare?.interruptedReason, edit: rare?.edit.map { RowVectors.Stamp($0) },
            isEditErased: rare?.edit == nil ? nil : rare?.isEditErased, parts: rare?.parts,
            reactions: (rare?.reactions ?? []).map {
                Reaction(emoji: $0.emoji, author: $0.author, isOn: $0.isOn, stamp: RowVectors.Stamp($0.stamp))
            })
    }
}

func hexadecimal(_ bytes: [UInt8]) -> String { bytes.withUnsafeBytes { Hex.encode($0) } }

private func clock(_ value: UInt64) -> String { hexadecimal((0..<8).map { UInt8(truncatingIfNeeded: value >> (56 - 8 * $0)) }) }
