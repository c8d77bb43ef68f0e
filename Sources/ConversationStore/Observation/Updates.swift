public import EventLog
public import Projections

/// The newest page of a conversation as it is now.
public struct TimelineUpdate: Sendable, Hashable {
    public var page: TimelinePage
    /// The seqs whose effect it shows for the first time: each follows the one before without a gap. The first begins at 1.
    public var covers: ClosedRange<Seq>
}

/// A user's lobby as it is now.
public struct LobbyUpdate: Sendable, Hashable {
    public var page: LobbyPage
    /// The store's positions that it shows for the first time; most concern others.
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
            guard let page = try store.timeline(of: conversation, .newest, limit: limit), page.seq > 0 else { return nil }
            let seen = last?.covers.upperBound ?? 0
            return page.seq > seen ? TimelineUpdate(page: page, covers: seen + 1...page.seq) : nil
        }
    }

    /// A user's newest conversations at once, then again after each commit that changes them.
    public func lobbyUpdates(of user: UserID, limit: Int = 50) -> Updates<LobbyUpdate> {
        Updates(self, .lobby(user)) { store, last in
            let (page, position) = try store.conversations.read(in: store.log) {
                (try $0.lobby(of: user, after: nil, limit: limit), store.log.foldedPosition)
            }
            if let last, last.page == page { return nil }
            let seen = last?.covers.upperBound ?? 0
            return LobbyUpdate(page: page, covers: min(seen + 1, max(position, 1))...max(position, 1))
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
                if let element = try read(observer.store, last) {
                    last = element
                    return element
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
        /// Events read at once.
        private static let batch = 512
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
                try observer.store.log.replay(from: next) { event in
                    read.append(event)
                    return read.count < Self.batch
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
        private static let batch = 256
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
                if target == nil {
                    guard let found = try observer.store.message(in: conversation, id: message) else { return nil }
                    target = found.seq
                    seen = found.seq
                }
                if try !readMore() { guard await observer.waker.wait() else { return nil } }
            }
            return nil
        }

        /// Says whether it came any further.
        private mutating func readMore() throws -> Bool {
            read.removeAll(keepingCapacity: true)
            place = 0
            let from = seen
            var count = 0
            try observer.store.log.forEachEvent(in: .conversation(conversation), range: seen + 1...Seq.max) { event in
                seen = event.seq
                count += 1
                guard event.targetSeq == target else { return count < Self.batch }
                switch event.event.content {
                case .chunkAppended(_, let index, let text): if index >= self.index { read.append(.text(index: index, text)) }
                case .messageCompleted(_, let reason, _): read.append(.ended(.complete, reason: reason))
                case .messageInterrupted(_, let reason): read.append(.ended(.interrupted, reason: reason))
                case .messageDeleted: read.append(.ended(.deleted, reason: nil))
                default: break
                }
                if case .ended? = read.last { return false }
                return count < Self.batch
            }
            if seen > from { return true }
            // A message that was sent whole has no end of its own.
            if let state = try observer.store.message(in: conversation, at: target!)?.state, state != .streaming {
                read.append(.ended(state, reason: nil))
                return true
            }
            return false
        }
    }
}
