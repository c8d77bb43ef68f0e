import Crypto
import EventLog

/// One row of a dialogue file.
struct DialogueRow {
    /// The UTF-8 of `conv`: rows belong together if these bytes are the same.
    var conversation: [UInt8]
    var turn: UInt64
    var author: UserID
    var role: Event.Role
    /// Whether its speaker is a machine's name (of a `kind:"system"` row the speaker does not count).
    var isMachine: Bool
    var text: String
    /// Milliseconds since 1970; `nil` if it is missing, null or not a date.
    var time: UInt64?
    var replyTo: UInt64?

    /// Reads a line. `conversation` is set as soon as it is known, also if the rest is refused.
    init(_ line: UnsafeRawBufferPointer, conversation known: inout [UInt8]?) throws(Refusal) {
        guard !line.isEmpty else { throw Refusal(.malformed, "JSON") }
        let json = JSONText(line.assumingMemoryBound(to: UInt8.self))
        guard let root = json.root(), root.kind == .object else { throw Refusal(.malformed, "JSON") }

        func text(_ value: JSONValue, _ name: StaticString) throws(Refusal) -> String {
            var bytes: [UInt8] = []
            guard value.kind == .string, json.appendText(of: value, to: &bytes) else { throw Refusal(.malformed, name.description) }
            guard bytes.count <= EventLimits.textBytesMax else { throw Refusal(.tooLarge, name.description) }
            return String(decoding: bytes, as: UTF8.self)
        }
        conversation = Array(try text(json.member("conv", of: root), "conv").utf8)
        known = conversation
        guard let turn = json.unsigned(json.member("turn", of: root)) else { throw Refusal(.malformed, "turn") }
        self.turn = turn
        if json.spells(json.member("kind", of: root), "system") {
            author = UserID("system")!
            role = .system
            isMachine = false
        } else {
            guard let author = UserID(try text(json.member("speaker", of: root), "speaker")) else { throw Refusal(.malformed, "speaker") }
            self.author = author
            isMachine = ["assistant", "system", "SYSTEM"].contains(author.string)
            role = isMachine ? .assistant : .user
        }
        self.text = try text(json.member("text", of: root), "text")
        let time = json.member("time", of: root)
        var bytes: [UInt8] = []
        if time.kind == .string, json.appendText(of: time, to: &bytes) { self.time = bytes.withUnsafeBufferPointer(Timestamp.parseLoosely) }
        let reply = json.member("reply_to", of: root)
        replyTo = json.unsigned(reply)
        guard reply.isNone || replyTo != nil else { throw Refusal(.malformed, "reply_to") }
    }

    /// The UUIDv8 of the SHA-256 of `conv`.
    static func conversationID(_ conversation: [UInt8]) -> ConversationID { ConversationID(digest: SHA256.hash(data: conversation)) }

    /// The UUIDv8 of the SHA-256 of `conv`, NUL and the turn in decimal.
    static func messageID(_ conversation: [UInt8], turn: UInt64) -> MessageID {
        MessageID(digest: SHA256.hash(data: conversation + [0] + Array(String(turn).utf8)))
    }
}
