public import EventLog
internal import Projections

/// A message whose text comes in pieces. Deltas of many streams share commits; the producer waits for one only when it is far ahead.
///
/// If the handle goes away before `complete` or `interrupt`, the message ends as interrupted with the reason `dropped`; if the task that appends is
/// cancelled, with `cancelled`. Its text so far stays.
public final class StreamedMessage: Sendable {
    public let conversation: ConversationID
    public let id: MessageID
    public let author: UserID
    let core: StreamCore

    init(_ core: StreamCore) {
        self.core = core
        conversation = core.conversation
        id = core.id
        author = core.author
    }

    deinit { core.abandon(reason: "dropped") }

    /// Adds a piece of text. Returns before it is committed, unless much is waiting.
    ///
    /// - Throws: `Refusal` (`message_closed` if somebody pressed stop, or what else kept an earlier piece from being accepted); `EventLogError`;
    ///   `CancellationError` if the task was cancelled, after the message was ended as interrupted.
    public func append(_ text: String) async throws {
        if Task.isCancelled {
            await core.finish(.interrupted("cancelled"))
            throw CancellationError()
        }
        try await core.append(text)
    }

    /// Waits until everything that was appended is committed.
    public func flush() async throws { try await core.drain() }

    /// Ends the message as complete, and waits until that is committed.
    @discardableResult
    public func complete(finishReason: String? = nil, usage: Event.Usage? = nil) async throws -> Receipt? {
        try await core.end(.completed(finishReason, usage))
    }

    /// Ends the message as interrupted; its text so far stays.
    @discardableResult
    public func interrupt(reason: String) async throws -> Receipt? { try await core.end(.interrupted(reason)) }
}

extension ConversationStore {
    /// Opens a message whose text will come in pieces.
    public func startMessage(
        in conversation: ConversationID, from author: UserID, role: Event.Role = .assistant, id: MessageID = .random(), replyTo: MessageID? = nil,
        requestID: String? = nil
    ) async throws -> StreamedMessage {
        let message = Event.Message(id: id, role: role, text: "", isStreaming: true, replyTo: replyTo, requestID: requestID)
        try await append(Event(conversation: conversation, author: author, content: .messageSent(message)))
        return StreamedMessage(StreamCore(self, conversation, id, author, next: 0))
    }

    /// Goes on with a message that is still being streamed, after its last chunk.
    ///
    /// - Throws: `Refusal` with `unknown_message` or `message_closed`.
    public func resumeMessage(_ id: MessageID, in conversation: ConversationID) throws -> StreamedMessage {
        guard let message = try message(in: conversation, id: id) else { throw Refusal(.unknownMessage) }
        guard message.state == .streaming else { throw Refusal(.messageClosed) }
        return StreamedMessage(StreamCore(self, conversation, id, message.author, next: message.chunks))
    }

    /// Streams a message from a closure: complete when it returns, interrupted with what it threw, or with `cancelled`, otherwise.
    @discardableResult
    public func streamMessage(
        in conversation: ConversationID, from author: UserID, role: Event.Role = .assistant, id: MessageID = .random(), replyTo: MessageID? = nil,
        _ produce: (StreamedMessage) async throws -> Void
    ) async throws -> MessageID {
        let answer = try await startMessage(in: conversation, from: author, role: role, id: id, replyTo: replyTo)
        do {
            try await produce(answer)
            try Task.checkCancellation()
        } catch {
            await answer.core.finish(.interrupted(error is CancellationError ? "cancelled" : "error"))
            throw error
        }
        try await answer.complete()
        return id
    }
}
