public import EventLog
public import Projections

/// The newest page of a conversation as it is now.
public struct TimelineUpdate: Sendable, Hashable {
    public var page: TimelinePage
    /// The seqs whose effect it shows for the first time: each follows the one before without a gap. The first begins at 1. Where only what is pending
    /// changed it is the last seq once more, 0 if nothing is confirmed.
    public var covers: ClosedRange<Seq>
}

/// A user's lobby as it is now.
public struct LobbyUpdate: Sendable, Hashable {
    public var page: LobbyPage
    /// The store's positions that it shows for the first time, without a gap; most concern others. The first begins at 1, or is 0 alone in an empty store.
    public var covers: ClosedRange<Position>
}

/// A piece of a streamed message.
public enum MessageChunk: Sendable, Hashable {
    case text(index: UInt32, String)
    /// The message ended; nothing follows.
    case ended(MessageState, reason: String?)
}

extension ConversationStore {
    /// A conversation's newest page at once, then again after each commit that changes the conversation. A reader that is slow gets what is then, not
    /// all that was in between. Ends when the store is closed.
    public func timelineUpdates(of conversation: ConversationID, limit: Int = 50) -> Updates<TimelineUpdate> {
        Updates(self, .conversation(conversation)) { store, last in
            guard let page = try store.timeline(of: conversation, .newest, limit: limit) else { return nil }
            let seen = last?.covers.upperBound ?? 0
            // What is pending has no seq to tell by.
            return page.seq > seen || last?.page != page ? TimelineUpdate(page: page, covers: min(seen + 1, page.seq)...page.seq) : nil
        }
    }

    /// A user's newest conversations at once, then again after each commit that changes them.
    public func lobbyUpdates(of user: UserID, limit: Int = 50) -> Updates<LobbyUpdate> {
        Updates(self, .lobby(user)) { store, last in
            let (page, position) = try store.view { (try $0.lobby(of: user, after: nil, limit: limit, under: store.overlays), store.log.foldedPosition) }
            if let last, last.page == page { return nil }
            return LobbyUpdate(page: page, covers: min((last?.covers.upperBound ?? 0) + 1, position)...position)
        }
    }

    /// Every event of the store from a position on, then each that is committed. Reads from the log: a slow reader costs no memory.
    public func events(from position: Position = 1) -> EventUpdates { EventUpdates(self, position) }

    /// A streamed message's text from a chunk on, as it comes, and its end. Ends at once, with the end, for one that is closed; empty for a message that is not there.
    public func chunks(of message: MessageID, in conversation: ConversationID, from index: UInt32 = 0) -> ChunkUpdates {
        ChunkUpdates(self, conversation, message, index)
    }
}

/// What is now, then what is after each change.
public struct Updates<Element: Sendable>: AsyncSequence, Sendable {
    private let store: ConversationStore
    private let topic: ChangeHub.Topic
    private let read: @Sendable (ConversationStore, Element?) throws -> Element?

    init(_ store: ConversationStore, _ topic: ChangeHub.Topic, _ read: @escaping @Sendable (ConversationStore, Element?) throws -> Element?) {
        self.store = store
        self.topic = topic
        self.read = read
    }

    public func makeAsyncIterator() -> Iterator { Iterator(Observer(store, topic), read) }

    public struct Iterator: AsyncIteratorProtocol {
        private let observer: Observer
        private let read: @Sendable (ConversationStore, Element?) throws -> Element?
        private var last: Element?

        fileprivate init(_ observer: Observer, _ read: @escaping @Sendable (ConversationStore, Element?) throws -> Element?) {
            self.observer = observer
            self.read = read
        }

        /// The next change; `nil` when the store was closed or the task cancelled.
        public mutating func next() async throws -> Element? {
            while !Task.isCancelled, !observer.waker.isFinished {
                do {
                    if let element = try read(observer.store, last) {
                        last = element
                        return element
                    }
                } catch let error as EventLogError where error.code == .closed {
                    return nil
                }
                guard await observer.waker.wait() else { return nil }
            }
            return nil
        }
    }
}

/// Keeps a waker in the hub as long as somebody iterates.
final class Observer: Sendable {
    let store: ConversationStore
    let waker = Waker()
    private let topic: ChangeHub.Topic

    init(_ store: ConversationStore, _ topic: ChangeHub.Topic) {
        self.store = store
        self.topic = topic
        store.changes.add(waker, topic)
    }

    deinit { store.changes.remove(waker, topic) }
}

/// A store's events in commit order.
public struct EventUpdates: AsyncSequence, Sendable {
    private let store: ConversationStore
    private let first: Position

    init(_ store: ConversationStore, _ first: Position) {
        self.store = store
        self.first = first
    }

    public func makeAsyncIterator() -> Iterator { Iterator(Observer(store, .everything), next: Swift.max(first, 1)) }

    public struct Iterator: AsyncIteratorProtocol {
        /// Events read at once, and about how many bytes of them.
        private static let batch = 512, batchBytes = 1 << 20
        private let observer: Observer
        private var next: Position
        private var read: [RecordedEvent] = []
        private var place = 0

        fileprivate init(_ observer: Observer, next: Position) {
            self.observer = observer
            self.next = next
        }

        public mutating func next() async throws -> RecordedEvent? {
            while !Task.isCancelled {
                if place < read.count {
                    defer { place += 1 }
                    return read[place]
                }
                if observer.waker.isFinished { return nil }
                read.removeAll(keepingCapacity: true)
                place = 0
                var bytes = 0
                do {
                    try observer.store.log.replay(from: next) { event in
                        read.append(event)
                        bytes += event.event.content.textBytes
                        return read.count < Self.batch && bytes < Self.batchBytes
                    }
                } catch let error as EventLogError where error.code == .closed {
                    return nil
                }
                if let last = read.last {
                    next = last.position + 1
                } else {
                    guard await observer.waker.wait() else { return nil }
                }
            }
            return nil
        }
    }
}

/// A streamed message's chunks.
public struct ChunkUpdates: AsyncSequence, Sendable {
    private let store: ConversationStore
    private let conversation: ConversationID
    private let message: MessageID
    private let index: UInt32

    init(_ store: ConversationStore, _ conversation: ConversationID, _ message: MessageID, _ index: UInt32) {
        self.store = store
        self.conversation = conversation
        self.message = message
        self.index = index
    }

    public func makeAsyncIterator() -> Iterator {
        Iterator(Observer(store, .conversation(conversation)), conversation, message, index)
    }

    public struct Iterator: AsyncIteratorProtocol {
        private static let batch = 512, batchBytes = 1 << 20
        private let observer: Observer
        private let conversation: ConversationID
        private let message: MessageID
        private let index: UInt32
        /// The message's seq, and the last seq that was looked at.
        private var target: Seq?
        private var seen: Seq = 0
        private var read: [MessageChunk] = []
        private var place = 0
        private var hasEnded = false

        fileprivate init(_ observer: Observer, _ conversation: ConversationID, _ message: MessageID, _ index: UInt32) {
            self.observer = observer
            self.conversation = conversation
            self.message = message
            self.index = index
        }

        public mutating func next() async throws -> MessageChunk? {
            while !Task.isCancelled {
                if place < read.count {
                    defer { place += 1 }
                    if case .ended = read[place] { hasEnded = true }
                    return read[place]
                }
                if hasEnded || observer.waker.isFinished { return nil }
                do {
                    if target == nil, try !begin() { return nil }
                    if try readMore() { continue }
                } catch let error as EventLogError where error.code == .closed {
                    return nil
                }
                guard await observer.waker.wait() else { return nil }
            }
            return nil
        }

        /// Finds the message; says false if there is none.
        private mutating func begin() throws -> Bool {
            // What is pending is in no log yet.
            guard let found = try observer.store.message(in: conversation, id: message), found.unconfirmed == nil else { return false }
            target = found.seq
            seen = found.seq - 1
            // What is gone is not told again from the log.
            if found.state == .deleted || found.state == .erased { read.append(.ended(found.state, reason: nil)) }
            return true
        }

        /// Says whether it came any further. All from the log, which a timeline may be ahead of: what it says of the end could come before the last text.
        private mutating func readMore() throws -> Bool {
            if place < read.count { return true }
            read.removeAll(keepingCapacity: true)
            place = 0
            let from = seen
            var count = 0
            var bytes = 0
            try observer.store.log.forEachEvent(in: .conversation(conversation), range: seen + 1...Seq.max) { event in
                seen = event.seq
                count += 1
                if event.seq == target || event.targetSeq == target {
                    switch event.event.content {
                    // A message that was sent whole has no end of its own.
                    case .messageSent(let message) where event.seq == target && !message.isStreaming: read.append(.ended(.complete, reason: nil))
                    case .chunkAppended(_, let index, let text) where index >= self.index:
                        read.append(.text(index: index, text))
                        bytes += text.utf8.count
                    case .messageCompleted(_, let reason, _): read.append(.ended(.complete, reason: reason))
                    case .messageInterrupted(_, let reason): read.append(.ended(.interrupted, reason: reason))
                    case .messageDeleted: read.append(.ended(.deleted, reason: nil))
                    default: break
                    }
                    if case .ended? = read.last { return false }
                }
                return count < Self.batch && bytes < Self.batchBytes
            }
            return seen > from
        }
    }
}

extension Event.Content {
    /// About how many bytes it takes.
    var textBytes: Int {
        switch self {
        case .messageSent(let message): message.text.utf8.count + (message.parts?.utf8.count ?? 0)
        case .chunkAppended(_, _, let text), .messageEdited(_, let text): text.utf8.count
        case .custom(_, let payload), .unknown(_, let payload): payload.count
        default: 256
        }
    }
}
