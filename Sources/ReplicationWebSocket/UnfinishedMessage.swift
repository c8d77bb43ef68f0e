import NIOCore
import NIOWebSocket

/// How much has come of a message that is not whole yet, and how much that may be. On the socket's event loop.
///
/// NIO's decoder keeps a frame until all of it is there, and then the socket keeps the fragments of a message. So bytes are counted before the one, and
/// discounted behind the other.
final class UnfinishedMessage {
    private var budget: ByteBudget?
    private let later: ByteBudget?
    private var bytes = 0
    /// Of frames that were decoded, and whose message goes on.
    private var fragmentBytes = 0

    init(first: ByteBudget?, later: ByteBudget?) {
        budget = first ?? later
        self.later = later
    }

    /// Whether there is such a message.
    var isThere: Bool { bytes > 0 }
    var isTooMuch: Bool { budget.map { bytes > $0.share } ?? false }

    func came(_ count: Int) { add(count) }

    /// A frame has been decoded. A message that it ends is kept by others from here on.
    func decoded(_ frame: WebSocketFrame) {
        let bytes = Self.wireBytes(frame)
        switch frame.opcode {
        case .binary where !frame.fin, .continuation where !frame.fin: fragmentBytes += bytes
        case .binary, .continuation:
            add(-min(bytes + fragmentBytes, self.bytes))
            fragmentBytes = 0
            move()
        default: add(-min(bytes, self.bytes))
        }
    }

    func over() {
        add(-bytes)
        budget = nil
    }

    /// The first message has come.
    private func move() {
        guard let later, budget !== later, budget != nil else { return }
        let bytes = bytes
        add(-bytes)
        budget = later
        add(bytes)
    }

    private func add(_ count: Int) {
        bytes += count
        budget?.add(count)
    }

    /// RFC 6455, section 5.2. A length may be written longer than need be: then that is counted for the peer until its socket ends.
    private static func wireBytes(_ frame: WebSocketFrame) -> Int {
        let lengthBytes = frame.length < 126 ? 0 : frame.length < 65536 ? 2 : 8
        return 2 + lengthBytes + (frame.maskKey == nil ? 0 : 4) + frame.length
    }
}

/// Before the frame decoder: tells of what goes into it, tells the receiver that something comes, and ends a socket that keeps too much there.
final class UnfinishedHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let message: UnfinishedMessage
    private let inbox: Inbox
    private var told = NIODeadline.now()

    init(_ message: UnfinishedMessage, _ inbox: Inbox) { (self.message, self.inbox) = (message, inbox) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        message.came(unwrapInboundIn(data).readableBytes)
        context.fireChannelRead(data)
        if message.isTooMuch { context.fireUserInboundEventTriggered(Excess()) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        context.fireChannelReadComplete()
        guard message.isThere else { return }
        let now = NIODeadline.now()
        guard now - told >= .seconds(1) else { return }
        told = now
        inbox.progressed()
    }

    /// For ``SocketHandler``.
    struct Excess {}
}
