public import EventLog
internal import Projections

/// A message whose text comes in pieces. Deltas of many streams share commits; the producer waits for one only when it is far ahead.
///
/// If the handle goes away before `complete` or `interrupt`, the message ends as interrupted with the reason `dropped`; if the task that appends to it,
/// or lets it go, is cancelled, with `cancelled`. Its text so far stays. Any task may append; pieces stand in the order in which they came.
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

    deinit { core.abandon(reason: Task.isCancelled ? "cancelled" : "dropped") }

    /// Adds a piece of text. Returns before it is committed, unless much is waiting.
    ///
    /// - Throws: `Refusal` (`message_closed` if somebody pressed stop, or what else kept an earlier piece from being accepted; `too_large` for a piece of
    ///   more than 1 MiB, which is not added, and the stream goes on); `EventLogError`; `CancellationError` if the task was cancelled, after the message
    ///   was ended as interrupted.
    public func append(_ text: String) async throws {
        if Task.isCancelled {
            await core.finish(.interrupted("cancelled"))
            throw CancellationError()
        }
        try await core.append(text)
    }

    /// Waits until everything that was appended before is committed.
    public func flush() async throws { try await core.drain() }

    /// Ends the message as complete, and waits until that is committed. Once more changes nothing.
    ///
    /// In a task that was cancelled the message ends as interrupted instead: a loop over a model's `AsyncStream` just ends then, in the middle of the answer.
    ///
    /// - Throws: `CancellationError` then; what kept a piece from being accepted: then the message is interrupted, with the reason `error`; `Refusal` with `message_closed` if it
    ///   was interrupted before.
    @discardableResult
    public func complete(finishReason: String? = nil, usage: Event.Usage? = nil) async throws -> Receipt? {
        if Task.isCancelled, await core.finish(.interrupted("cancelled")) { throw CancellationError() }
        return try await core.end(.completed(finishReason, usage))
    }

    /// Ends the message as interrupted, and waits until that is committed; its text so far stays. Once more changes nothing.
    ///
    /// - Throws: as `complete`.
    @discardableResult
    public func interrupt(reason: String) async throws -> Receipt? { try await core.end(.interrupted(reason)) }
}

extension ConversationStore {
    /// Opens a message whose text will come in pieces.
    ///
    /// - Throws: `Refusal`, as `append`; `message_conflict` if a message of this id was begun before and has got anywhere: `resumeMessage` goes on with it.
    public func startMessage(
        in conversation: ConversationID, from author: UserID, role: Event.Role = .assistant, id: MessageID = .random(), replyTo: MessageID? = nil,
        requestID: String? = nil
    ) async throws -> StreamedMessage {
        let message = Event.Message(id: id, role: role, text: "", isStreaming: true, replyTo: replyTo, requestID: requestID)
        let outcome = try await log.append([Submission(Event(conversation: conversation, author: author, content: .messageSent(message)))])[0]
        let receipt = try Self.receipt(outcome)
        if case .duplicate = outcome {
            // Its chunks would pass for repeats of those that are there.
            let known = try self.message(in: conversation, at: receipt.seq)
            guard known?.state == .streaming, known?.chunks == 0 else { throw Refusal(.messageConflict, "it was begun before") }
        }
        let core = StreamCore(self, conversation, id, author, next: 0)
        guard try liveStreams.add(core) else { throw Refusal(.messageConflict, "it is being streamed") }
        return StreamedMessage(core)
    }

    /// Goes on with a message that is still being streamed, after its last chunk.
    ///
    /// - Throws: `Refusal` with `unknown_message`, `message_closed`, or `message_streaming` if this process has a handle of it already.
    public func resumeMessage(_ id: MessageID, in conversation: ConversationID) throws -> StreamedMessage {
        guard let message = try message(in: conversation, id: id) else { throw Refusal(.unknownMessage) }
        guard message.state == .streaming else { throw Refusal(.messageClosed) }
        let core = StreamCore(self, conversation, id, message.author, next: message.chunks)
        guard try liveStreams.add(core) else { throw Refusal(.messageStreaming) }
        return StreamedMessage(core)
    }

    /// Streams a message from a closure: complete when it returns; interrupted with `error` if it threw, or with `cancelled`, otherwise. The closure runs
    /// where the caller does, on the main actor, say.
    @discardableResult
    public func streamMessage(
        in conversation: ConversationID, from author: UserID, role: Event.Role = .assistant, id: MessageID = .random(), replyTo: MessageID? = nil,
        isolation: isolated (any Actor)? = #isolation, _ produce: (StreamedMessage) async throws -> Void
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
