import NIOCore
import NIOWebSocket

/// A socket's end of the pipeline: frames to messages and back, control frames, deadlines, and the closing.
final class SocketHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundIn = Never
    typealias OutboundOut = WebSocketFrame

    private enum State {
        case open
        /// A close frame was sent, and the peer has not closed yet. What it still sends is thrown away.
        case closing(SocketEnd)
        case closed
    }

    private let socket: Socket
    private let unfinished: UnfinishedMessage
    private let options: SocketOptions
    private var state = State.open
    /// The fragments of a message so far.
    private var fragments: ByteBuffer?
    private var isFull = false
    private var wantsRead = false
    private var deadline: Scheduled<Void>?

    init(_ socket: Socket, _ unfinished: UnfinishedMessage) {
        self.socket = socket
        self.unfinished = unfinished
        options = socket.options
    }

    func handlerAdded(context: ChannelHandlerContext) {
        guard let time = options.firstMessageDeadline else { return }
        schedule(in: time, context) { handler, context in handler.close(.tooSlow, context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { over(nil) }

    func channelInactive(context: ChannelHandlerContext) {
        over(nil)
        context.fireChannelInactive()
    }

    private func over(_ end: SocketEnd?) {
        deadline?.cancel()
        deadline = nil
        fragments = nil
        unfinished.over()
        switch state {
        case .open: socket.over(end)
        case .closing(let own): socket.over(own)
        case .closed: break
        }
        state = .closed
    }

    /// One deadline runs at a time: for the first message, then for the end.
    private func schedule(in time: TimeAmount, _ context: ChannelHandlerContext, _ action: @escaping (SocketHandler, ChannelHandlerContext) -> Void) {
        deadline?.cancel()
        deadline = context.eventLoop.assumeIsolated().scheduleTask(in: time) { action(self, context) }
    }

    // Frames that come in.

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        unfinished.decoded(frame)
        switch state {
        case .open: read(frame, context)
        case .closing: if frame.opcode == .connectionClose { context.close(promise: nil) }
        case .closed: break
        }
    }

    private func read(_ frame: WebSocketFrame, _ context: ChannelHandlerContext) {
        guard !frame.rsv1, !frame.rsv2, !frame.rsv3 else { return close(.malformed("a reserved bit is set"), context) }
        guard (frame.maskKey != nil) == (options.side == .server) else {
            return close(.malformed(options.side == .server ? "the frame is not masked" : "the frame is masked"), context)
        }
        switch frame.opcode {
        case .binary:
            guard fragments == nil else { return close(.malformed("a message began within another"), context) }
            if frame.fin { deliver(frame.unmaskedData, context) } else { fragments = frame.unmaskedData }
        case .continuation:
            guard var message = fragments.take() else { return close(.malformed("there is no message to continue"), context) }
            guard message.readableBytes + frame.length <= options.messageBytesMax else { return close(.tooLarge, context) }
            var rest = frame.unmaskedData
            message.writeBuffer(&rest)
            if frame.fin { deliver(message, context) } else { fragments = message }
        case .text: close(.onlyBinary, context)
        case .ping:
            // Answers for a peer that does not read them would pile up.
            guard context.channel.isWritable else { return }
            write(.pong, frame.unmaskedData, context)
            context.flush()
        case .pong: break
        case .connectionClose: closed(frame.unmaskedData, context)
        default: close(.malformed("the opcode is unknown"), context)
        }
    }

    private func deliver(_ message: ByteBuffer, _ context: ChannelHandlerContext) {
        if options.firstMessageDeadline != nil, let deadline, !isQuiescing {
            deadline.cancel()
            self.deadline = nil
        }
        isFull = !socket.inbox.add(Array(message.readableBytesView))
    }

    /// The peer closes: its code goes back, and the connection ends.
    private func closed(_ payload: ByteBuffer, _ context: ChannelHandlerContext) {
        var payload = payload
        var end: SocketEnd?
        if payload.readableBytes > 0 {
            guard let code = payload.readInteger(as: UInt16.self), let reason = payload.readString(length: payload.readableBytes),
                SocketEnd(code, "").isSendable
            else { return close(.malformed("the close frame is malformed"), context) }
            end = SocketEnd(code, reason)
        }
        over(end ?? SocketEnd(1005, ""))
        writeClose(end, context)
        schedule(in: options.closeDeadline, context) { _, context in context.close(promise: nil) }
    }

    // What goes out.

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        switch event as? Socket.Call {
        case .write: writeMessages(context)
        case .read: resume(context)
        case nil: return context.triggerUserOutboundEvent(event, promise: promise)
        }
        promise?.succeed()
    }

    private func writeMessages(_ context: ChannelHandlerContext) {
        let (messages, end) = socket.take()
        guard case .open = state else { return socket.wrote(messages.reduce(0) { $0 + $1.count }) }
        var bytes = 0
        for (index, message) in messages.enumerated() {
            bytes += message.count
            let buffer = context.channel.allocator.buffer(bytes: message)
            guard index == messages.count - 1 else {
                write(.binary, buffer, context)
                continue
            }
            // The channel writes in order: with the last of them all are gone.
            let written = context.eventLoop.makePromise(of: Void.self)
            written.futureResult.whenComplete { [socket, bytes] _ in socket.wrote(bytes) }
            write(.binary, buffer, context, written)
        }
        if !messages.isEmpty { context.flush() }
        if end == .overload { return cut(.overload, context) }
        if let end { close(end, context) }
    }

    private func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>? = nil) {
        let frame = WebSocketFrame(fin: true, opcode: opcode, maskKey: options.side == .client ? .random() : nil, data: data)
        context.write(wrapOutboundOut(frame), promise: promise)
    }

    /// Closes in our own words, and gives the peer a while to answer.
    private func close(_ end: SocketEnd, _ context: ChannelHandlerContext) {
        guard case .open = state else { return }
        state = .closing(end)
        fragments = nil
        writeClose(end, context, keepsConnection: true)
        schedule(in: options.closeDeadline, context) { _, context in context.close(promise: nil) }
        // The peer's answer must be read.
        resume(context)
    }

    /// For a peer that reads nothing: a close frame would only wait with the rest.
    private func cut(_ end: SocketEnd, _ context: ChannelHandlerContext) {
        guard case .open = state else { return }
        state = .closing(end)
        context.close(promise: nil)
    }

    /// For a peer of which too much is kept: it is told why, and nothing more is read.
    private func refuse(_ context: ChannelHandlerContext) {
        if case .open = state {
            state = .closing(.excess)
            writeClose(.excess, context)
        }
        context.close(promise: nil)
    }

    private func writeClose(_ end: SocketEnd?, _ context: ChannelHandlerContext, keepsConnection: Bool = false) {
        var data = context.channel.allocator.buffer(capacity: 125)
        if let end {
            data.writeInteger(end.code)
            data.writeSubstring(end.reason.prefix(bytes: 123))
        }
        let written = context.eventLoop.makePromise(of: Void.self)
        if !keepsConnection { written.futureResult.assumeIsolated().whenComplete { _ in context.close(promise: nil) } }
        write(.connectionClose, data, context, written)
        context.flush()
    }

    // Pressure.

    func read(context: ChannelHandlerContext) {
        if isFull { wantsRead = true } else { context.read() }
    }

    private func resume(_ context: ChannelHandlerContext) {
        isFull = false
        guard wantsRead else { return }
        wantsRead = false
        context.read()
    }

    // Ends of other kinds.

    private var isQuiescing = false

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ChannelShouldQuiesceEvent:
            guard case .open = state else { return }
            isQuiescing = true
            schedule(in: options.farewellDeadline, context) { handler, context in handler.close(.goingAway, context) }
        case is UnfinishedHandler.Excess: refuse(context)
        case ChannelEvent.inputClosed: context.close(promise: nil)
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case NIOWebSocketError.invalidFrameLength: close(.tooLarge, context)
        case is NIOWebSocketError: close(.malformed("the frame is malformed"), context)
        // The decoder is done for, but the close frame is on its way.
        case is ByteToMessageDecoderError: close(.malformed("the frame is malformed"), context)
        default: context.close(promise: nil)
        }
    }
}

extension String {
    /// As many whole characters as fit into so many bytes.
    fileprivate func prefix(bytes: Int) -> Substring {
        var end = endIndex
        while utf8.distance(from: startIndex, to: end) > bytes { end = index(before: end) }
        return self[..<end]
    }
}

extension Optional where Wrapped == ByteBuffer {
    fileprivate mutating func take() -> ByteBuffer? {
        defer { self = nil }
        return self
    }
}
