import Synchronization

/// What all sockets of a server may keep of one kind, together: what waits to be sent, or what has come of messages that are not whole yet.
///
/// A socket's share is as much as is left of the whole: few who keep much have much, many have little, and something is left for who comes. With *n* of them
/// each has a part of *n* + 1 ("dynamic thresholds", with α = 1: A. K. Choudhury and E. L. Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). It says
/// what a socket should keep; what it keeps all the same is counted.
package final class ByteBudget: Sendable {
    /// In bytes.
    package let bytesMax: Int
    private let kept = Atomic(0)
    /// However little is left, each may keep so many bytes.
    static let shareMin = 64 << 10

    package init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Bytes that are kept now.
    package var bytes: Int { kept.load(ordering: .relaxed) }
    /// The most that a socket should keep now, in bytes.
    var share: Int { max(Self.shareMin, bytesMax - bytes) }

    func add(_ bytes: Int) { kept.add(bytes, ordering: .relaxed) }
}
