import ConversationStore
import EventLog
import Foundation
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A directory that goes when the test ends.
final class Scratch: Sendable {
    let path: String

    init() {
        var template = Array("/tmp/convstore-front-XXXXXX".utf8CString)
        path = template.withUnsafeMutableBufferPointer { String(cString: mkdtemp($0.baseAddress!)) }
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    var store: String { path + "/s" }

    /// Opens the store in it.
    func open(_ options: ConversationStoreOptions = ConversationStoreOptions()) throws -> ConversationStore {
        try ConversationStore.open(at: store, options: options)
    }
}

extension ConversationStoreOptions {
    /// A journal so small that flushes come all the time.
    static let tiny = ConversationStoreOptions(journalBytesMax: 64 << 10)
}

let (ann, bob, bot) = (UserID("ann")!, UserID("bob")!, UserID("bot")!)

/// Names a conversation by a small number.
func chat(_ number: UInt64) -> ConversationID { ConversationID(high: 0xC0, low: number) }
func message(_ number: UInt64) -> MessageID { MessageID(high: 0xA0, low: number) }

func text(_ text: String, in conversation: ConversationID, by author: UserID = ann, id: MessageID = .random()) -> Submission {
    Submission(Event(conversation: conversation, author: author, content: .messageSent(.init(id: id, role: .user, text: text))))
}

extension ConversationStore {
    /// A conversation of three.
    @discardableResult
    func group(_ number: UInt64 = 1) async throws -> ConversationID {
        try await createConversation(.group, id: chat(number), title: "talk \(number)", author: ann, participants: [bob, bot])
    }

    func stop(_ id: MessageID, in conversation: ConversationID, by user: UserID = bob, reason: String = "stop") async throws {
        try await append(Event(conversation: conversation, author: user, content: .messageInterrupted(message: id, reason: reason)))
    }
}

/// The code with which a closure is refused; `nil` if it is not.
func refusal<R>(_ body: () async throws -> R) async -> RefusalCode? {
    do {
        _ = try await body()
        return nil
    } catch let error as Refusal {
        return error.code
    } catch {
        Issue.record("not a refusal: \(error)")
        return nil
    }
}

func failure<R>(_ body: () async throws -> R) async -> EventLogError.Code? {
    do {
        _ = try await body()
        return nil
    } catch let error as EventLogError {
        return error.code
    } catch {
        Issue.record("not an error of the store's: \(error)")
        return nil
    }
}

/// Waits until something holds, for as long as a busy machine may need.
func eventually(_ what: String, _ holds: () throws -> Bool) async throws {
    for _ in 0..<6000 {
        if try holds() { return }
        try await Task.sleep(for: .milliseconds(5))
    }
    Issue.record("never came true: \(what)")
}

/// Seeded randomness (SplitMix64).
struct Seeded: RandomNumberGenerator, Sendable {
    var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ z >> 30) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ z >> 27) &* 0x94D0_49BB_1331_11EB
        return z ^ z >> 31
    }
}

/// Lines that outlive a killed process: each is in the kernel's hands when `add` returns.
final class AckFile: Sendable {
    private let descriptor: CInt

    init(_ path: String) { descriptor = Glibc.open(path, O_WRONLY | O_CREAT | O_APPEND, 0o600) }
    deinit { close(descriptor) }

    func add(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress!, $0.count) }
    }

    /// The whole lines of a file, or of about its last bytes.
    static func lines(_ path: String, last: Int = .max) -> [Substring] {
        guard let data = FileManager.default.contents(atPath: path) else { return [] }
        var bytes = data.suffix(last)
        if bytes.count < data.count { bytes = bytes[(bytes.firstIndex(of: UInt8(ascii: "\n")) ?? bytes.endIndex)...] }
        let text = String(decoding: bytes, as: UTF8.self)
        guard let end = text.lastIndex(of: "\n") else { return [] }
        return text[..<end].split(separator: "\n")
    }
}

func environment(_ name: String, default value: Int) -> Int { ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? value }

/// Set once, seen by all.
final class Flag: Sendable {
    private let state = Monitor(false)
    var isSet: Bool { state.withLock { $0 } }
    func set() { state.withLock { $0 = true } }
}
