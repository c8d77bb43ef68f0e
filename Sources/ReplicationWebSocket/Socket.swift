import EventLog
package import NIOCore
package import NIOPosix
import NIOWebSocket

/// One WebSocket after its handshake, of either side: whole binary messages out and in.
///
/// Safe to use from any thread. What is sent leaves in the order of the calls; what comes goes to the receiver, away from the event loop.
package final class Socket: Sendable {
    private struct Outgoing {
        var messages: [[UInt8]] = []
        /// Of what waits here and of what waits in the channel.
        var bytes = 0
        var end: SocketEnd?
        /// Somebody was told that no more is taken, and waits to hear that some is.
        var isDenied = false
        /// The handler knows that something waits.
        var isAwake = false
    }

    /// What the handler is told from other threads.
    enum Call: Sendable {
        case write
        case read
    }

    package let options: SocketOptions
    private let channel: any Channel
    private let outgoing = Monitor(Outgoing())
    let inbox: Inbox

    private init(_ channel: any Channel, _ options: SocketOptions, _ pool: NIOThreadPool) {
        self.channel = channel
        self.options = options
        let pipeline = channel.pipeline
        inbox = Inbox(bytesMax: options.incomingBytesMax, pool: pool) { pipeline.triggerUserOutboundEvent(Call.read, promise: nil) }
    }

    /// Begins to speak on a channel whose handshake is done and which carries frames. Call it on the channel's event loop.
    package static func start(
        on channel: any Channel, _ options: SocketOptions, pool: NIOThreadPool, receiver: (Socket) -> any SocketReceiver
    ) throws -> Socket {
        let socket = Socket(channel, options, pool)
        socket.inbox.open(receiver(socket))
        do {
            let operations = channel.pipeline.syncOperations
            let unfinished = UnfinishedMessage(first: options.unfinishedFirst, later: options.unfinished)
            let decoder = try operations.handler(type: ByteToMessageHandler<WebSocketFrameDecoder>.self)
            try operations.addHandler(UnfinishedHandler(unfinished, socket.inbox), position: .before(decoder))
            try operations.addHandler(SocketHandler(socket, unfinished))
        } catch {
            socket.inbox.end(nil)
            throw error
        }
        return socket
    }

    /// Where the peer is, for people.
    package var peer: String { channel.remoteAddress.map { "\($0.ipAddress ?? "?"):\($0.port ?? 0)" } ?? "unknown" }

    /// Nothing happens if the socket is closed or closing.
    package func send(_ message: [UInt8]) {
        let wakes = outgoing.withLock { outgoing in
            guard outgoing.end == nil else { return false }
            outgoing.messages.append(message)
            outgoing.bytes += message.count
            options.outgoing?.add(message.count)
            if outgoing.bytes > options.outgoingBytesMax {
                drop(&outgoing)
                outgoing.end = .overload
            }
            return Self.wakes(&outgoing)
        }
        if wakes { channel.pipeline.triggerUserOutboundEvent(Call.write, promise: nil) }
    }

    /// Whether more may be sent that could wait as well. If not, the receiver is told when it may (``SocketReceiver/drained()``).
    package var takesMore: Bool {
        outgoing.withLock { outgoing in
            outgoing.isDenied = isClogged(outgoing)
            return !outgoing.isDenied
        }
    }

    private func isClogged(_ outgoing: borrowing Outgoing) -> Bool {
        guard let budget = options.outgoing else { return false }
        return outgoing.bytes > budget.share && outgoing.end == nil
    }

    private func drop(_ outgoing: inout Outgoing) {
        let bytes = outgoing.messages.reduce(0) { $0 + $1.count }
        outgoing.messages = []
        outgoing.bytes -= bytes
        options.outgoing?.add(-bytes)
    }

    /// Closes the socket once what was sent before has left. The first call counts.
    package func close(_ end: SocketEnd) {
        let wakes = outgoing.withLock { outgoing in
            guard outgoing.end == nil else { return false }
            outgoing.end = end
            return Self.wakes(&outgoing)
        }
        if wakes { channel.pipeline.triggerUserOutboundEvent(Call.write, promise: nil) }
    }

    private static func wakes(_ outgoing: inout Outgoing) -> Bool {
        defer { outgoing.isAwake = true }
        return !outgoing.isAwake
    }

    // For the handler.

    func take() -> (messages: [[UInt8]], end: SocketEnd?) {
        outgoing.withLock { outgoing in
            outgoing.isAwake = false
            defer { outgoing.messages = [] }
            return (outgoing.messages, outgoing.end)
        }
    }

    /// So much of what was taken has left, or never will.
    func wrote(_ bytes: Int) {
        options.outgoing?.add(-bytes)
        let isDrained = outgoing.withLock { outgoing in
            outgoing.bytes -= bytes
            guard outgoing.isDenied, !isClogged(outgoing) else { return false }
            outgoing.isDenied = false
            return true
        }
        if isDrained { inbox.drained() }
    }

    /// Nothing is kept for a peer that is gone.
    func over(_ end: SocketEnd?) {
        outgoing.withLock { outgoing in
            drop(&outgoing)
            outgoing.end = outgoing.end ?? end ?? .goingAway
        }
        inbox.end(end)
    }
}
