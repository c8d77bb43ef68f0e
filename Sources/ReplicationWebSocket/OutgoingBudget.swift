import Synchronization

/// What all sockets of a server may have waiting to be sent, together.
///
/// A socket's share is as much as is left of the whole: few who read slowly have much, many have little, and something is left for who comes. With *n* of them
/// each has a part of *n* + 1 ("dynamic thresholds", with α = 1: A. K. Choudhury and E. L. Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). It holds
/// back what may wait, events; what is sent all the same is counted, and each socket has a bound of its own for it.
package final class OutgoingBudget: Sendable {
    /// In bytes.
    package let bytesMax: Int
    private let waiting = Atomic(0)
    /// However little is left, each may have so many bytes waiting.
    static let shareMin = 64 << 10

    package init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Bytes that wait now.
    package var bytes: Int { waiting.load(ordering: .relaxed) }
    /// The most that a socket should have waiting now, in bytes.
    var share: Int { max(Self.shareMin, bytesMax - bytes) }

    func add(_ bytes: Int) { waiting.add(bytes, ordering: .relaxed) }
}
