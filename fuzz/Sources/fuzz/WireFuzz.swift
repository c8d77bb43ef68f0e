@testable import Replication

/// In a file of its own: the journal has frames too.
enum WireFuzz {
    /// A message of a peer.
    static func frame(_ input: [UInt8]) {
        guard let frame = try? Frame(decoding: input) else { return }
        let bytes = frame.encoded()
        guard let again = try? Frame(decoding: bytes) else { fatalError("a frame that was written cannot be read") }
        precondition(again == frame && again.encoded() == bytes, "a frame changed by a round trip")
    }
}
