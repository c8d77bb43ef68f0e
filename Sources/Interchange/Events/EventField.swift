/// The members of a line that a reader looks at.
enum EventField: Int, CaseIterable {
    case type, conversationID, author, at, origin
    case kind, title, participants, attributes, user, messageID, role, text, parts, replyTo, streaming, requestID, index, finishReason
    case usage, reason, emoji, on, upTo, key, value, name, payload
    case seq, position, hlc, targetSeq, secret, erased, commitment, log, bytes, envelope, body

    var name: StaticString {
        switch self {
        case .type: "type"
        case .conversationID: "conversation_id"
        case .author: "author"
        case .at: "at"
        case .origin: "origin"
        case .kind: "kind"
        case .title: "title"
        case .participants: "participants"
        case .attributes: "attributes"
        case .user: "user"
        case .messageID: "message_id"
        case .role: "role"
        case .text: "text"
        case .parts: "parts"
        case .replyTo: "reply_to"
        case .streaming: "streaming"
        case .requestID: "request_id"
        case .index: "index"
        case .finishReason: "finish_reason"
        case .usage: "usage"
        case .reason: "reason"
        case .emoji: "emoji"
        case .on: "on"
        case .upTo: "up_to"
        case .key: "key"
        case .value: "value"
        case .name: "name"
        case .payload: "payload"
        case .seq: "seq"
        case .position: "position"
        case .hlc: "hlc"
        case .targetSeq: "target_seq"
        case .secret: "secret"
        case .erased: "erased"
        case .commitment: "commitment"
        case .log: "log"
        case .bytes: "bytes"
        case .envelope: "envelope"
        case .body: "body"
        }
    }

    static let table = NameTable(allCases.map { ($0.name, $0.rawValue) })

    static let kinds = NameTable([
        ("conversation.created", 1), ("conversation.updated", 2), ("participant.joined", 3), ("participant.left", 4), ("message.sent", 5),
        ("chunk.appended", 6), ("message.completed", 7), ("message.interrupted", 8), ("message.edited", 9), ("message.deleted", 10),
        ("reaction.set", 11), ("receipt.delivered", 12), ("receipt.read", 13), ("preference.set", 14), ("custom", 15),
    ])
}
