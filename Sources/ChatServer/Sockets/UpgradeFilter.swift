import NIOCore
import NIOHTTP1

/// Stands before NIO's upgrade handler until the first request has come.
///
/// That handler loses the head of a request whose `Upgrade` it does not follow (`Upgrade: h2c`, another path, a bad key): the client would get no answer at
/// all. So `Upgrade` is taken from every request that will not become a socket, and the router answers it like any other.
final class UpgradeFilter: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    private let deadline: TimeAmount
    private let upgrades: (HTTPRequestHead) -> Bool
    private var timer: Scheduled<Void>?

    init(deadline: TimeAmount, upgrades: @escaping (HTTPRequestHead) -> Bool) {
        self.deadline = deadline
        self.upgrades = upgrades
    }

    func handlerAdded(context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: deadline) { context.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data) else { return context.fireChannelRead(data) }
        if !upgrades(head) { head.headers.remove(name: "Upgrade") }
        context.fireChannelRead(wrapInboundOut(.head(head)))
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // Nothing was asked yet: nobody loses anything.
        if event is ChannelShouldQuiesceEvent { context.close(promise: nil) } else { context.fireUserInboundEventTriggered(event) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.fireErrorCaught(error)
        context.close(promise: nil)
    }
}
