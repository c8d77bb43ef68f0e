/// What is to happen, in the order of its time, and among things of one time in the order in which it was planned.
package struct Schedule<Action> {
    private struct Entry {
        var time: UInt64
        var order: UInt64
        var action: Action

        static func isBefore(_ left: borrowing Entry, _ right: borrowing Entry) -> Bool {
            left.time == right.time ? left.order < right.order : left.time < right.time
        }
    }

    /// A binary heap.
    private var entries: [Entry] = []
    private var planned: UInt64 = 0
    /// Virtual milliseconds since the world began.
    package private(set) var now: UInt64 = 0

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }
    package var nextTime: UInt64? { entries.first?.time }

    package mutating func plan(after delay: UInt64, _ action: Action) {
        planned += 1
        entries.append(Entry(time: now + delay, order: planned, action: action))
        var place = entries.count - 1
        while place > 0, Entry.isBefore(entries[place], entries[(place - 1) / 2]) {
            entries.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    /// Takes what comes next, and moves the time there.
    package mutating func next() -> Action? {
        guard let first = entries.first else { return nil }
        now = first.time
        let last = entries.removeLast()
        guard !entries.isEmpty else { return first.action }
        entries[0] = last
        var place = 0
        while true {
            var least = place
            for child in [2 * place + 1, 2 * place + 2] where child < entries.count && Entry.isBefore(entries[child], entries[least]) { least = child }
            if least == place { return first.action }
            entries.swapAt(place, least)
            place = least
        }
    }
}
