import Foundation

@testable import EventLog

/// The files in docs/vectors, which other implementations read too (docs/FORMAT.md, "Vectors").
enum FormatVectors {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "docs/vectors")

    /// Whether `make docs-vectors` asks for the files to be written anew.
    static let isWriting = ProcessInfo.processInfo.environment["CONVSTORE_WRITE_VECTORS"] != nil

    static func read<File: Decodable>(_ name: String, as type: File.Type = File.self) throws -> File {
        try JSONDecoder().decode(type, from: Data(contentsOf: folder.appending(path: name)))
    }

    static func write(_ file: some Encodable, _ name: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(file) + [0x0A]).write(to: folder.appending(path: name))
    }
}

extension FormatVectors {
    struct Events: Codable {
        var events: [EventVector]
        var newer: [Newer]
        var wrong: [Wrong]
    }

    struct EventVector: Codable {
        var name: String
        var input: Input
        var envelope: String
        var body: String
        /// With a salt of 32 bytes, each the seq's lowest byte: SHA-256(salt ‖ body), and the event's leaf in its log's tree.
        var commitment: String?
        var leaf: String?
    }

    /// A vector of `events` with further fields behind it: read as the same event, kept byte for byte.
    struct Newer: Codable {
        var name: String
        var of: String
        var envelopeAppends: String
        var bodyAppends: String
        enum CodingKeys: String, CodingKey {
            case name, of
            case envelopeAppends = "envelope_appends"
            case bodyAppends = "body_appends"
        }
    }

    struct Wrong: Codable {
        var name: String
        var problem: String
        var envelope: String
        var body: String
    }

    struct Frames: Codable {
        var store: String
        var frames: [FrameVector]
    }

    struct FrameVector: Codable {
        var name: String
        var generation: UInt64
        var number: UInt64
        var syncedThrough: UInt64
        var previousChecksum: String
        var firstPosition: UInt64
        var events: Int
        var purpose: UInt32
        var records: [Record]
        var checksum: String
        var bytes: String
        enum CodingKeys: String, CodingKey {
            case name, generation, number, events, purpose, records, checksum, bytes
            case syncedThrough = "synced_through"
            case previousChecksum = "previous_checksum"
            case firstPosition = "first_position"
        }
    }

    struct Record: Codable {
        var kind: UInt8
        /// Of an event: the name of its vector in events.json.
        var event: String?
        var log: String?
        var replica: String?
        var counter: UInt64?
        /// Of a mark: the refusal's code, absent for a duplicate; of that, `detail` is the seq that it was answered with, if that is kept.
        var refusal: String?
        var detail: String?
        var wrapped: String?
    }

    struct Run: Codable {
        var position: UInt64
        /// The names of vectors in events.json, in commit order.
        var events: [String]
        /// Those whose body is erased, and its commitment.
        var erased: [String: String]
        var bytes: String
    }

    struct Seeds: Codable {
        var root: String
        var leaves: [Leaf]
        var punctured: [Punctured]
        struct Leaf: Codable {
            var index: UInt64
            var seed: String
        }
        struct Punctured: Codable {
            var forgotten: [UInt64]
            var encoded: String
        }
    }

    struct Rows: Codable {
        var rows: [RowVector]
        var state: [String: UInt64]
        var stateBytes: String
        var store: String
        var storeBytes: String
        var keyFile: KeyFileVector
        enum CodingKeys: String, CodingKey {
            case rows, state, store
            case stateBytes = "state_bytes"
            case storeBytes = "store_bytes"
            case keyFile = "key_file"
        }
    }

    struct KeyFileVector: Codable {
        var signingSeed: String
        var keys: [Key]
        var bytes: String
        struct Key: Codable {
            var generation: UInt64
            var secret: String
        }
        enum CodingKeys: String, CodingKey {
            case signingSeed = "signing_seed"
            case keys, bytes
        }
    }

    struct RowVector: Codable {
        struct Person: Codable {
            var user: String
            var joined: UInt64, left: UInt64, deliveredTo: UInt64, deliveredSeq: UInt64, readTo: UInt64, readSeq: UInt64
        }
        struct Open: Codable {
            var message: String
            var seq: UInt64
            var author: Int
            var chunks: UInt32
            var joinedBytes: Int
        }
        struct Slice: Codable {
            var run: UInt64
            var index: Int
            var firstSeq: UInt64
            var count: Int
            var messages: Int
        }
        struct Lane: Codable {
            var replica: UInt64
            var mark: UInt64
            var answered: [Answered]
        }
        struct Answered: Codable {
            var counter: UInt64
            /// A refusal's, or `duplicate`, with the seq as detail.
            var code: String
            var detail: String
        }
        var name: String
        var log: String
        var number: UInt64
        var seq: UInt64
        var messages: UInt64
        var people: [Person]
        var open: [Open]
        var slices: [Slice]
        var tree: [String]
        var lanes: [Lane]
        /// The key and the value, with its checksum.
        var key: String
        var bytes: String
    }

    /// An event as JSONL has it, with what a store adds.
    struct Input: Codable {
        struct Origin: Codable {
            var replica: String
            var counter: UInt64
            var hlc: String
        }
        struct Usage: Codable {
            var inputTokens: UInt64
            var outputTokens: UInt64
            enum CodingKeys: String, CodingKey {
                case inputTokens = "input_tokens"
                case outputTokens = "output_tokens"
            }
        }
        enum Number: Codable {
            case kind(UInt32)
            case name(String)
            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if let number = try? container.decode(UInt32.self) { self = .kind(number) } else { self = .name(try container.decode(String.self)) }
            }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                switch self {
                case .kind(let number): try container.encode(number)
                case .name(let name): try container.encode(name)
                }
            }
        }

        var type: String
        var log: String
        var seq: UInt64
        var origin: Origin
        var hlc: String
        var target: UInt64?
        var author: String
        var conversation: String
        var kind: Number?
        var title: String?
        var participants: [String]?
        var attributes: [String: String?]?
        var user: String?
        var message: String?
        var role: String?
        var text: String?
        var streaming: Bool?
        var replyTo: String?
        var parts: String?
        var requestID: String?
        var index: UInt32?
        var finishReason: String?
        var usage: Usage?
        var reason: String?
        var emoji: String?
        var on: Bool?
        var upTo: String?
        var key: String?
        var value: String?
        var name: String?
        var payload: Data?
        var bytes: Data?

        enum CodingKeys: String, CodingKey {
            case type, log, seq, origin, hlc, author, kind, title, participants, attributes, user, role, text, streaming, parts, index, usage, reason, emoji
            case on, key, value, name, payload, bytes
            case target = "target_seq"
            case conversation = "conversation_id"
            case message = "message_id"
            case replyTo = "reply_to"
            case requestID = "request_id"
            case finishReason = "finish_reason"
            case upTo = "up_to"
        }
    }
}

struct BadVector: Error {}

extension FormatVectors.Input {
    static func log(_ text: String) throws -> LogID {
        if text.hasPrefix("user:") { return .user(try UserID(String(text.dropFirst(5))).orThrow()) }
        return .conversation(try ConversationID(text).orThrow())
    }

    func recorded() throws -> RecordedEvent {
        func id<Tag>(_ text: String?) throws -> Identifier<Tag> { try text.flatMap { Identifier<Tag>($0) }.orThrow() }
        func clock(_ text: String) throws -> HLC { HLC(rawValue: try UInt64(text, radix: 16).orThrow()) }
        func name(_ number: Number?) throws -> String { if case .name(let name)? = number { name } else { throw BadVector() } }
        let content: Event.Content
        switch type {
        case "conversation.created":
            let kinds: [String: Event.ConversationKind] = ["direct": .direct, "group": .group, "assistant": .assistant]
            content = .conversationCreated(
                kind: try kinds[name(kind)].orThrow(), title: title, participants: try participants.orThrow().map { try UserID($0).orThrow() })
        case "conversation.updated":
            let sorted = (attributes ?? [:]).sorted { compareBytes($0.key, $1.key) < 0 }
            content = .conversationUpdated(title: title, attributes: sorted.map { Event.Attribute(name: $0.key, value: $0.value) })
        case "participant.joined": content = .participantJoined(try user.flatMap { UserID($0) }.orThrow())
        case "participant.left": content = .participantLeft(try user.flatMap { UserID($0) }.orThrow())
        case "message.sent":
            let roles: [String: Event.Role] = ["user": .user, "assistant": .assistant, "system": .system, "tool": .tool]
            content = .messageSent(
                Event.Message(
                    id: try id(message), role: try roles[role.orThrow()].orThrow(), text: try text.orThrow(), isStreaming: streaming ?? false,
                    replyTo: try replyTo.map { try id($0) }, parts: parts, requestID: requestID))
        case "chunk.appended": content = .chunkAppended(message: try id(message), index: try index.orThrow(), text: try text.orThrow())
        case "message.completed":
            content = .messageCompleted(
                message: try id(message), finishReason: finishReason,
                usage: usage.map { Event.Usage(inputTokens: $0.inputTokens, outputTokens: $0.outputTokens) })
        case "message.interrupted": content = .messageInterrupted(message: try id(message), reason: try reason.orThrow())
        case "message.edited": content = .messageEdited(message: try id(message), text: try text.orThrow())
        case "message.deleted": content = .messageDeleted(message: try id(message))
        case "reaction.set": content = .reactionSet(message: try id(message), emoji: try emoji.orThrow(), isOn: try on.orThrow())
        case "receipt.delivered": content = .receiptDelivered(upTo: try id(upTo))
        case "receipt.read": content = .receiptRead(upTo: try id(upTo))
        case "preference.set": content = .preferenceSet(key: try key.orThrow(), value: value)
        case "custom": content = .custom(name: try self.name.orThrow(), payload: Array(try payload.orThrow()))
        case "unknown":
            guard case .kind(let number)? = kind else { throw BadVector() }
            content = .unknown(kind: number, body: Array(try bytes.orThrow()))
        default: throw BadVector()
        }
        return RecordedEvent(
            log: try Self.log(log), seq: seq, position: 0,
            origin: EventLog.Origin(replica: try id(origin.replica), counter: origin.counter, hlc: try clock(origin.hlc)), hlc: try clock(hlc),
            event: Event(conversation: try id(conversation), author: try UserID(author).orThrow(), content: content), targetSeq: target)
    }
}

extension Optional {
    func orThrow() throws -> Wrapped {
        guard let self else { throw BadVector() }
        return self
    }
}

func hex(_ bytes: some Sequence<UInt8>) -> String { Array(bytes).withUnsafeBytes { Hex.encode($0) } }
func bytes(_ hex: String) throws -> [UInt8] { try Hex.decode(hex).orThrow() }
