/// Who takes what comes in on a socket: one call at a time, in order, on a thread that may block.
package protocol SocketReceiver: Sendable {
    func receive(_ message: [UInt8])
    /// The last call. `nil` if the connection was lost without a word.
    func ended(_ end: SocketEnd?)
}
