import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Ends a connection behind an answer with `Connection: close`, which Hummingbird sends and does not heed.
final class LastAnswer: ChannelOutboundHandler {
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// For the client to read the answer and close too: with what it still sends unread, an end at once could take the answer along.
    private static let grace: TimeAmount = .seconds(1)
    private var isLast = false

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(let head): isLast = isLast || head.status.kind != .informational && head.headerFields[.connection]?.lowercased() == "close"
        case .end where isLast:
            let written = promise ?? context.eventLoop.makePromise()
            written.futureResult.assumeIsolated().whenComplete { _ in
                context.close(mode: .output, promise: nil)
                context.eventLoop.assumeIsolated().scheduleTask(in: Self.grace) { context.close(promise: nil) }
            }
            return context.write(data, promise: written)
        default: break
        }
        context.write(data, promise: promise)
    }
}
