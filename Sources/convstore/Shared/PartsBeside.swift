import ConversationStore
import EventLog
import Replication

/// What a replica holds of conversations beside their logs: commands that read logs alone say what they leave out.
struct PartsBeside {
    let parts: [HeldPart]
    /// How many conversations it holds only in part; `nil` if it is no replica, or that cannot be read.
    let count: Int?

    init(_ parts: [HeldPart]?) {
        self.parts = parts ?? []
        count = parts?.count
    }

    var isEmpty: Bool { parts.isEmpty }

    func of(_ id: ConversationID) -> HeldPart? { parts.first { $0.conversation == id } }

    /// Says what a command leaves out, if it is about all conversations, or about that one.
    func complain(_ log: LogID? = nil) {
        let meant = parts.filter { log == nil || log == .conversation($0.conversation) }
        guard let first = meant.first else { return }
        let count = meant.reduce(0) { $0 + $1.events }
        let what = meant.count == 1 ? "\(first.conversation) is held only in part" : "\(meant.count) conversations are held only in part"
        let holes = meant.count == 1 ? first.hole.map { ", as @\($0.lowerBound) to @\($0.upperBound) are not here" } ?? "" : ""
        Terminal.complain("\(what): \(Quantity.count(count, "event")) beside the log left out\(holes); `convstore conversations` lists what is missing")
    }
}

extension StoreOption {
    /// Opens the log for reading, with what a replica holds beside it.
    func readParts<Result>(_ body: (EventStore, PartsBeside) throws -> Result) throws -> Result {
        // What the log takes over meanwhile is then in both.
        var held: HeldParts?
        do {
            held = try HeldParts(of: path)
        } catch let error as EventLogError where error.code == .damaged {
            // The log is sound all the same.
            Terminal.complain("what is held beside the logs cannot be told: \(error.message)")
        }
        return try read { store in try body(store, PartsBeside(held?.beside(store))) }
    }
}

extension Optional<String> {
    /// The log named, or `nil` if none was. Throws 66 too if all that is held of it lies beside the log.
    func resolvedLog(in store: EventStore, _ beside: PartsBeside) throws -> LogID? {
        guard let text = self else { return nil }
        let log = try LogName(text: text).resolve(in: store, or: beside.parts.map(\.conversation))
        guard case .conversation(let id) = log, let part = beside.of(id), try store.lastSeq(of: log) == 0 else { return log }
        let what = part.firstSeq.map { "\(Quantity.count(part.events, "event")) from @\($0) on" } ?? "no event yet"
        throw Failure(.noInput, "\(store.path): of \(id) only the newest part is held (\(what)), and nothing in its log; a sync with a wider --scope fills it")
    }
}
