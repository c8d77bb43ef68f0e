import EventLog
import Foundation
@testable import Replication

/// docs/vectors/frames.json, which other implementations read too (docs/PROTOCOL.md, "Vectors").
enum FrameVectors {
    struct File: Codable {
        var frames: [Vector]
        /// A vector of `frames` with fields of a newer version in it: read as the same frame.
        var newer: [Newer]
        var wrong: [Wrong]
        var sessions: [Session]
    }

    struct Vector: Codable {
        var name: String
        var kind: String
        /// By their names in docs/convstore.proto; bytes in hexadecimal; what holds its default is left out.
        var fields: Value
        var bytes: String
    }

    struct Newer: Codable {
        var name: String
        var of: String
        var bytes: String
    }

    struct Wrong: Codable {
        var name: String
        var problem: String
        var bytes: String
    }

    struct Session: Codable {
        struct Message: Codable, Equatable {
            /// "replica" or "hub".
            var from: String
            var kind: String
            var bytes: String
        }
        var name: String
        var messages: [Message]
    }

    /// What JSON can say of a frame.
    indirect enum Value: Codable, Equatable, ExpressibleByStringLiteral {
        case number(UInt64), text(String), flag(Bool), list([Value]), fields([String: Value])

        init(stringLiteral value: String) { self = .text(value) }

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let value = try? container.decode(Bool.self) {
                self = .flag(value)
            } else if let value = try? container.decode(UInt64.self) {
                self = .number(value)
            } else if let value = try? container.decode(String.self) {
                self = .text(value)
            } else if let value = try? container.decode([Value].self) {
                self = .list(value)
            } else {
                self = .fields(try container.decode([String: Value].self))
            }
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .number(let value): try container.encode(value)
            case .text(let value): try container.encode(value)
            case .flag(let value): try container.encode(value)
            case .list(let value): try container.encode(value)
            case .fields(let value): try container.encode(value)
            }
        }
    }

    private static let path = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "docs/vectors/frames.json")

    /// Whether `make docs-vectors` asks for the files to be written anew.
    static let isWriting = ProcessInfo.processInfo.environment["CONVSTORE_WRITE_VECTORS"] != nil

    static func read() throws -> File { try JSONDecoder().decode(File.self, from: Data(contentsOf: path)) }

    static func write(_ file: File) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(file) + [0x0A]).write(to: path)
    }
}

func hex(_ bytes: some Sequence<UInt8>) -> String { bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() }

func unhex(_ text: String) -> [UInt8] {
    let digits = Array(text.utf8)
    return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)! }
}

extension Frame {
    /// Its name in docs/convstore.proto.
    var kind: String { name.lowercased() }

    /// What a vector says of it.
    var fields: FrameVectors.Value {
        switch self {
        case .hello(let hello): hello.fields
        case .welcome(let welcome): welcome.fields
        case .push(let events): .of(("events", .of(events.map(\.fields))))
        case .accepted(let answers):
            .of(
                (
                    "answers",
                    .of(
                        answers.map {
                            .of(
                                $0.log.field, ("replica", .of($0.replica.bytes)), ("counter", .number($0.counter)), ("seq", .number($0.seq)),
                                ("hlc", .number($0.hlc.rawValue)), ("is_duplicate", .flag($0.isDuplicate)))
                        })
                ))
        case .refused(let answers):
            .of(
                (
                    "answers",
                    .of(
                        answers.map {
                            .of(
                                $0.log.field, ("replica", .of($0.replica.bytes)), ("counter", .number($0.counter)), ("code", .text($0.code)),
                                ("detail", .text($0.detail)))
                        })
                ))
        case .segment(let segment): .of(("run", .of(segment.run)), ("logs", .of(segment.logs.map(\.fields))))
        case .events(let events):
            .of(
                (
                    "items",
                    .of(events.items.map { .of(("envelope", .of($0.envelope)), ("body", .of($0.body)), ("commitment", .of($0.commitment?.bytes ?? []))) })
                ), ("logs", .of(events.logs.map(\.fields))))
        case .fetch(let wishes, let damaged):
            .of(
                ("wishes", .of(wishes.map { .of($0.log.field, ("from", .number($0.from)), ("through", .number($0.through))) })),
                ("damaged", .of(damaged.map(\.fields))))
        case .caughtUp(let caughtUp): .of(("cursor", caughtUp.cursor.fields))
        case .credit(let bytes): .of(("bytes", .number(bytes)))
        case .typing(let typing):
            .of(("conversation", .of(typing.conversation.bytes)), ("user", .text(typing.user.string)), ("is_typing", .flag(typing.isTyping)))
        case .ping(let id), .pong(let id): .of(("id", .number(id)))
        case .bye(let bye):
            .of(
                ("code", .number(UInt64(bye.code.rawValue))), ("reason", .text(bye.reason)),
                ("retry_after_milliseconds", .number(bye.retryAfterMilliseconds)))
        case .token(let token): .of(("token", .text(token)))
        case .heads(let heads):
            .of(
                ("heads", .of(heads.heads.map { .of($0.log.field, ("head", $0.head.fields)) })), ("is_probe", .flag(heads.isProbe)),
                ("is_last", .flag(heads.isLast)))
        case .base(let base):
            .of(
                base.log.field, ("base", .of(base.base)), ("seq", .number(base.seq)), ("range", .of(base.range)), ("secret", .of(base.secret)),
                ("first", .flag(base.isFirst)))
        case .progress(let progress):
            .of(
                ("cursor", progress.part.cursor.fields), ("whole_from", .number(progress.part.wholeFrom)), ("part_from", .number(progress.part.partFrom)),
                ("part_through", .number(progress.part.partThrough)), ("whole_conversations", Self.conversations(progress.whole)),
                ("whole_users", Self.users(progress.whole)))
        case .unreadable(let unreadable):
            .of(
                ("conversations", Self.conversations(unreadable.logs)), ("users", Self.users(unreadable.logs)),
                ("undecided_conversations", Self.conversations(unreadable.undecided)), ("undecided_users", Self.users(unreadable.undecided)))
        case .repair(let repair):
            .of(
                ("position", .number(repair.position)),
                ("blocks", .of(repair.blocks.map { .of(("number", .number(UInt64($0.number))), ("bytes", .of($0.bytes))) })))
        }
    }

    private static func conversations(_ logs: [LogID]) -> FrameVectors.Value {
        .of(logs.compactMap { log -> FrameVectors.Value? in if case .conversation(let id) = log { .of(id.bytes) } else { nil } })
    }

    private static func users(_ logs: [LogID]) -> FrameVectors.Value {
        .of(logs.compactMap { log -> FrameVectors.Value? in if case .user(let user) = log { .text(user.string) } else { nil } })
    }
}

extension FrameVectors.Value {
    static func of(_ bytes: [UInt8]) -> Self { .text(hex(bytes)) }
    static func of(_ values: [Self]) -> Self { .list(values) }

    /// Leaves out what holds its default; messages stay, empty or not.
    static func of(_ fields: (String, Self?)...) -> Self {
        var result: [String: Self] = [:]
        for (name, value) in fields {
            switch value {
            case nil, .number(0), .text(""), .flag(false), .list([]): continue
            default: result[name] = value
            }
        }
        return .fields(result)
    }
}

extension LogID {
    fileprivate var field: (String, FrameVectors.Value?) {
        switch self {
        case .conversation(let id): ("conversation", .of(id.bytes))
        case .user(let user): ("user", .text(user.string))
        }
    }
}

extension LogHead {
    fileprivate var fields: FrameVectors.Value { .of(("size", .number(size)), ("root", .of(root.bytes))) }
}

extension LogNote {
    fileprivate var fields: FrameVectors.Value { .of(log.field, ("secret", .of(secret)), ("head", head?.fields)) }
}

extension DamagedRun {
    fileprivate var fields: FrameVectors.Value {
        .of(
            log.field, ("seq", .number(seq)), ("position", .number(position)), ("size", .number(UInt64(byteCount))),
            ("checks", .of(checks.flatMap { check in (0..<8).map { UInt8(truncatingIfNeeded: check >> ($0 * 8)) } })),
            ("spans", .of(spans.map { .of($0.log.field, ("seq", .number($0.firstSeq)), ("count", .number(UInt64($0.count)))) })))
    }
}

extension Cursor {
    fileprivate var fields: FrameVectors.Value {
        .of(("store", .of(store.bytes)), ("incarnation", .number(incarnation)), ("position", .number(position)))
    }
}

extension PartialCursor {
    fileprivate var fields: FrameVectors.Value {
        .of(
            ("cursor", cursor.fields), ("whole_from", .number(wholeFrom)), ("part_from", .number(partFrom)), ("part_through", .number(partThrough)))
    }
}

extension Scope {
    fileprivate var fields: FrameVectors.Value? {
        switch self {
        case .mine: nil
        case .everything: .of(("kind", .number(1)))
        case .conversations(let ids): .of(("kind", .number(2)), ("conversations", .of(ids.map { .of($0.bytes) })))
        case .newest(let conversations, let messages):
            .of(("kind", .number(3)), ("newest", .number(conversations)), ("messages", .number(messages)))
        }
    }
}

extension PushedEvent {
    fileprivate var fields: FrameVectors.Value {
        .of(
            ("envelope", .of(envelope)), ("body", .of(body)), ("is_first_sending", .flag(isFirstSending)), ("nonce", .of(nonce)),
            ("rests_on", .number(restsOn)),
            ("former_replica", .of(former?.replica.bytes ?? [])), ("former_counter", .number(former?.counter ?? 0)),
            ("may_stand_from", .number(mayStandFrom)))
    }
}

extension Hello {
    fileprivate var fields: FrameVectors.Value {
        .of(
            ("min_version", .number(UInt64(versions.lowerBound))), ("max_version", .number(UInt64(versions.upperBound))), ("replica", .of(replica.bytes)),
            ("nonce", .of(nonce)), ("user", .text(user.string)), ("token", .text(token)), ("cursor", cursor?.fields), ("scope", scope.fields),
            ("credit", .number(credit)), ("pushed", .of(pushed.map(\.fields))), ("checkpoint_size", .number(checkpointSize)),
            ("wants_first_screen", .flag(wantsFirstScreen)), ("sends_again", .flag(sendsAgain)), ("checkpoint_root", checkpointRoot.map { .of($0.bytes) }),
            ("takes_progress", .flag(takesProgress)), ("progress", progress?.fields), ("message_bytes", .number(messageBytes)),
            ("takes_unreadable", .flag(takesUnreadable)), ("takes_checkpoint_kept", .flag(takesCheckpointKept)))
    }
}

extension Welcome {
    fileprivate var fields: FrameVectors.Value {
        .of(
            ("version", .number(UInt64(version))), ("connection", .number(connection)), ("store", .of(store.bytes)), ("incarnation", .number(incarnation)),
            ("time", .number(time)), ("credit", .number(credit)), ("is_gone", .flag(isGone)), ("checkpoint", .text(checkpoint)),
            ("consistency", .of(consistency.map { .of($0.bytes) })), ("checkpoint_key", .text(checkpointKey)),
            ("is_checkpoint_kept", .flag(isCheckpointKept)))
    }
}
