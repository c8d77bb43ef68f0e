package import NIOCore

/// The limits of a socket.
package struct SocketOptions: Sendable {
    package enum Side: Sendable { case server, client }

    package var side: Side
    package var messageBytesMax = 8 << 20
    /// Of what was sent and is not yet with the system. A peer that lets more pile up is cut off.
    package var outgoingBytesMax = 32 << 20
    /// Of what waits to be sent, for all sockets together: of events no more is sent to those who read slowly.
    package var outgoing: ByteBudget?
    /// Of messages that are not whole yet, for all sockets together whose first one has come. One that keeps more than its share is cut off.
    package var unfinished: ByteBudget?
    /// The same for those whose first one has not come: anybody may open such a socket.
    package var unfinishedFirst: ByteBudget?
    /// How much may wait for the receiver before nothing more is read. A message beyond it is still taken whole.
    package var incomingBytesMax = 256 << 10
    /// How long the peer may take to send its first message.
    package var firstMessageDeadline: TimeAmount?
    /// How long the peer may take to answer a close, before the connection is cut.
    package var closeDeadline: TimeAmount = .seconds(2)
    /// At a graceful shutdown, how long the receiver may take to close the socket in its own words.
    package var farewellDeadline: TimeAmount = .seconds(1)

    package init(_ side: Side) { self.side = side }
}
