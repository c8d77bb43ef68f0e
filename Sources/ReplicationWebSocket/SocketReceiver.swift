/// Who takes what comes in on a socket: one call at a time, in order, on a thread that may block.
package protocol SocketReceiver: Sendable {
    func receive(_ message: [UInt8])
    /// The socket takes more again, which it had denied. On its event loop: it must not wait.
    func drained()
    /// Bytes of a message have come that is not whole yet; once a second at most. On the socket's event loop: it must not wait.
    func progressed()
    /// The last call. `nil` if the connection was lost without a word.
    func ended(_ end: SocketEnd?)
}

extension SocketReceiver {
    package func drained() {}
    package func progressed() {}
}
