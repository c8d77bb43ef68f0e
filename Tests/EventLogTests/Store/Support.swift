import EventLog
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A directory that goes when the test ends.
final class TemporaryDirectory: Sendable {
    let path: String

    init() {
        var template = Array("/tmp/convstore-test-XXXXXX".utf8CString)
        path = template.withUnsafeMutableBufferPointer { String(cString: mkdtemp($0.baseAddress!)) }
    }

    deinit { Self.remove(path) }

    var store: String { path + "/s" }

    private static func remove(_ path: String) {
        if let handle = opendir(path) {
            while let entry = readdir(handle) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
                if name != ".", name != ".." { remove(path + "/" + name) }
            }
            closedir(handle)
            rmdir(path)
        } else {
            unlink(path)
        }
    }
}

/// Names things by small numbers.
func conversation(_ number: UInt64) -> ConversationID { ConversationID(high: 0xC0, low: number) }
func message(_ number: UInt64) -> MessageID { MessageID(high: 0xA0, low: number) }
func user(_ name: String) -> UserID { UserID(name)! }

func created(_ number: UInt64, by author: String = "ann", with others: [String] = ["bob"]) -> Submission {
    Submission(
        Event(
            conversation: conversation(number), author: user(author),
            content: .conversationCreated(kind: .group, title: "talk \(number)", participants: others.map { user($0) })))
}

func sent(_ id: UInt64, in number: UInt64, by author: String = "ann", _ text: String, isStreaming: Bool = false) -> Submission {
    Submission(
        Event(
            conversation: conversation(number), author: user(author),
            content: .messageSent(Event.Message(id: message(id), role: .user, text: text, isStreaming: isStreaming))))
}

func chunk(_ index: UInt32, of id: UInt64, in number: UInt64, by author: String = "ann", _ text: String) -> Submission {
    Submission(
        Event(conversation: conversation(number), author: user(author), content: .chunkAppended(message: message(id), index: index, text: text)))
}

extension AppendOutcome {
    var isAccepted: Bool { if case .accepted = self { true } else { false } }
    var refusal: RefusalCode? { if case .refused(let refusal) = self { refusal.code } else { nil } }
    var receipt: Receipt? {
        switch self {
        case .accepted(let receipt), .duplicate(let receipt): receipt
        default: nil
        }
    }
}

extension EventStore {
    func all() throws -> [RecordedEvent] {
        var result: [RecordedEvent] = []
        try replay { event in
            result.append(event)
            return true
        }
        return result
    }

    func heads() throws -> [LogID: Head] {
        var result: [LogID: Head] = [:]
        try forEachHead { head in
            result[head.log] = head
            return true
        }
        return result
    }
}

/// All bytes of all files of a directory.
func filesBytes(_ path: String) -> [[UInt8]] {
    var result: [[UInt8]] = []
    guard let handle = opendir(path) else { return [] }
    defer { closedir(handle) }
    while let entry = readdir(handle) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
        guard name != ".", name != "..", let file = fopen(path + "/" + name, "r") else { continue }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
        result.append(bytes)
    }
    return result
}

func contains(_ haystack: [UInt8], _ needle: [UInt8]) -> Bool {
    guard let first = needle.first, haystack.count >= needle.count else { return false }
    return haystack.withUnsafeBufferPointer { all in
        var start = 0
        while start + needle.count <= all.count, let found = all[start...(all.count - needle.count)].firstIndex(of: first) {
            if all[found..<found + needle.count].elementsEqual(needle) { return true }
            start = found + 1
        }
        return false
    }
}

/// Appends events of all kinds to two conversations and the logs of two people, among them a reply, streams, and a repeated receipt; deterministic but
/// for clocks. Each round takes other ids.
func talk(_ store: EventStore, round: UInt64 = 0, messages: UInt64 = 40) throws {
    func event(_ number: UInt64, _ author: String, _ content: Event.Content) -> Submission {
        Submission(Event(conversation: conversation(number), author: user(author), content: content))
    }
    if round == 0 { _ = try store.appendBlocking([created(1), created(2, with: ["bob", "cem"])]) }
    let first = round * 1000
    for id in first + 1...first + messages {
        let number = id % 2 + 1
        var batch = [sent(id, in: number, "message \(id) " + String(repeating: "words é ", count: Int(id % 9)), isStreaming: id % 4 == 0)]
        if id % 4 == 0 {
            for index in 0..<UInt32(id % 7) { batch.append(chunk(index, of: id, in: number, "token \(index) ")) }
            batch.append(
                id % 8 == 0
                    ? event(number, "ann", .messageInterrupted(message: message(id), reason: "stopped"))
                    : event(number, "ann", .messageCompleted(message: message(id), finishReason: "end", usage: .init(inputTokens: 3, outputTokens: id))))
        }
        if id % 5 == 0, id > first + 3 {
            let reply = Event.Message(
                id: message(id + 500), role: .assistant, text: "", replyTo: message(id - 2), parts: #"[{"a":\#(id)}]"#, requestID: "r\(id)")
            batch.append(event(number, "bob", .messageSent(reply)))
            batch.append(event(number, "bob", .reactionSet(message: message(id - 2), emoji: "👍", isOn: id % 2 == 0)))
            batch.append(event(number, "ann", .messageEdited(message: message(id + 0), text: "edited \(id)")))
        }
        if id % 7 == 0 { batch.append(event(number, "bob", .receiptRead(upTo: message(id)))) }
        if id % 9 == 0 { batch.append(event(number, "bob", .receiptDelivered(upTo: message(id)))) }
        if id % 11 == 0 { batch.append(event(number, "ann", .messageDeleted(message: message(id)))) }
        if id % 6 == 0 { batch.append(event(number, "bob", .preferenceSet(key: "draft", value: id % 4 == 0 ? nil : "so \(id)"))) }
        if id % 13 == 0 { batch.append(event(number, "ann", .preferenceSet(key: "pinned", value: "yes"))) }
        if id % 10 == 0 { batch.append(event(number, "ann", .custom(name: "poll", payload: [1, 2, UInt8(id & 255)]))) }
        if id % 12 == 0 {
            batch.append(event(number, "ann", .conversationUpdated(title: "t\(id)", attributes: [.init(name: "a", value: "v"), .init(name: "b", value: nil)])))
            batch.append(event(number, "ann", .participantJoined(user("dan\(id)"))))
            batch.append(event(number, "ann", .participantLeft(user("dan\(id)"))))
        }
        _ = try store.appendBlocking(batch)
    }
}

extension RecordedEvent {
    /// Without what is a store's own.
    var shipped: RecordedEvent {
        var copy = self
        copy.position = 0
        return copy
    }
}
