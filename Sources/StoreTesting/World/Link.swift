/// A connection between two ends: whole messages, in order each way, delayed; it may be cut at any moment.
///
/// A cut in the middle of a message loses it, or loses only its answer. The ends learn of the cut at different times, long after perhaps. One way may be gone
/// while the other goes on: what was sent is lost, and what is said meanwhile comes.
///
/// `@unchecked Sendable`: a world has one thread.
package final class Link: @unchecked Sendable {
    package enum End: Int { case device, hub }

    private struct Way {
        var receive: ([UInt8]) -> Void = { _ in }
        var ended: () -> Void = {}
        /// When the last message that was sent to this end arrives.
        var lastArrival: UInt64 = 0
        /// Messages under way to this end.
        var underWay = 0
        /// How many of them still arrive, once it is cut.
        var spared: Int?
        var hasEnded = false
    }

    private let world: World
    private var ways = [Way(), Way()]
    /// Delays of this connection, in milliseconds.
    private let delay: ClosedRange<UInt64>
    private let bytesAMillisecond: UInt64
    package private(set) var isCut = false
    /// Whose it is, for a trace.
    package let name: String

    package init(_ world: World, name: String, delay: ClosedRange<UInt64>, bytesAMillisecond: UInt64) {
        self.world = world
        self.name = name
        self.delay = delay
        self.bytesAMillisecond = bytesAMillisecond
    }

    /// Attaches what an end does with messages, and when it learns that the connection is gone.
    package func attach(_ end: End, receive: @escaping ([UInt8]) -> Void, ended: @escaping () -> Void) {
        ways[end.rawValue].receive = receive
        ways[end.rawValue].ended = ended
    }

    package func send(_ message: [UInt8], to end: End, _ summary: @autoclosure () -> String = "") {
        if isCut { return }
        world.log("\(end == .hub ? "\(name) > hub" : "hub > \(name)"): \(message.count) bytes: \(summary())")
        let place = end.rawValue
        let arrival = max(world.now + world.random.within(delay) + UInt64(message.count) / bytesAMillisecond, ways[place].lastArrival)
        ways[place].lastArrival = arrival
        ways[place].underWay += 1
        world.after(arrival - world.now) { [self] in
            ways[place].underWay -= 1
            if let spared = ways[place].spared {
                if spared == 0 { return }
                ways[place].spared = spared - 1
            }
            if !ways[place].hasEnded { ways[place].receive(message) }
        }
    }

    /// From now on nothing that is sent to an end arrives, but for a first part of what is under way, and nobody learns of that.
    package func silence(to end: End) { spare(some: end.rawValue) }

    private func spare(some place: Int) {
        let spared = world.random.below(ways[place].underWay + 1)
        ways[place].spared = min(spared, ways[place].spared ?? spared)
    }

    /// The connection breaks. Of what is under way a first part arrives, which may be none or all of it.
    package func cut() {
        if isCut { return }
        isCut = true
        for place in ways.indices {
            spare(some: place)
            // One end may believe in the connection long after the other has made a new one.
            let notice =
                max(ways[place].lastArrival, world.now) - world.now
                + (world.random.chance(0.7) ? world.random.within(0...200) : world.random.within(0...60_000))
            world.after(notice) { [self] in end(place) }
        }
    }

    /// An end closes in good order: what it sent before arrives, then the other learns of it.
    package func close(by end: End) {
        if isCut { return }
        isCut = true
        endWithoutAWord(end.rawValue)
        let other = 1 - end.rawValue
        world.after(max(ways[other].lastArrival, world.now) - world.now) { [self] in self.end(other) }
    }

    /// An end is gone without a word: its process was killed. What it sent is under way all the same.
    package func abandon(by end: End) {
        endWithoutAWord(end.rawValue)
        cut()
    }

    private func end(_ place: Int) {
        if ways[place].hasEnded { return }
        let ended = ways[place].ended
        endWithoutAWord(place)
        ended()
    }

    /// The ends and the connection hold each other until then.
    private func endWithoutAWord(_ place: Int) {
        ways[place].hasEnded = true
        ways[place].receive = { _ in }
        ways[place].ended = {}
    }

    /// Its world has ended.
    package func letGo() { for place in ways.indices { endWithoutAWord(place) } }
}
