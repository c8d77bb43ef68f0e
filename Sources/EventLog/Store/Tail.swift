/// The journal's events in memory, and up to where they are durable and archived: what readers see of the newest events.
final class Tail: Sendable {
    struct Snapshot: Sendable {
        /// Frames beyond the archive, ascending.
        var frames: [TailFrame]
        /// The last position that readers may see.
        var visible: Position
        var archived: Position
        /// Bytes of all frames.
        var bytes = 0

        /// The frame in which a position lies.
        func frame(of position: Position) -> (frame: TailFrame, index: Int)? {
            var low = 0
            var high = frames.count
            while low < high {
                let middle = (low + high) / 2
                if frames[middle].lastPosition < position { low = middle + 1 } else { high = middle }
            }
            guard low < frames.count, frames[low].firstPosition <= position else { return nil }
            return (frames[low], Int(position - frames[low].firstPosition))
        }
    }

    /// A lock of the system's: the thread sanitizer does not see those of `Synchronization` on Linux.
    private let state: Monitor<Snapshot>

    init(frames: [TailFrame], archived: Position) {
        let last = frames.last(where: { !$0.items.isEmpty })?.lastPosition ?? archived
        state = Monitor(Snapshot(frames: frames, visible: last, archived: archived, bytes: frames.reduce(0) { $0 + $1.bytes.count }))
    }

    var snapshot: Snapshot { state.withLock { $0 } }
    var bytes: Int { state.withLock { $0.bytes } }
    var isEmpty: Bool { state.withLock { $0.frames.isEmpty } }

    func append(_ frame: TailFrame) {
        state.withLock {
            $0.frames.append(frame)
            $0.bytes += frame.bytes.count
        }
    }

    func show(through position: Position) { state.withLock { $0.visible = max($0.visible, position) } }

    /// The archive took in events past the journal, while nothing is in the tail.
    func adopt(through position: Position) {
        state.withLock {
            $0.archived = max($0.archived, position)
            $0.visible = max($0.visible, position)
        }
    }

    func drop(throughFrame number: UInt64, archived: Position) {
        state.withLock { state in
            let gone = state.frames.firstIndex { $0.number > number } ?? state.frames.count
            for frame in state.frames[..<gone] { state.bytes -= frame.bytes.count }
            state.frames.removeFirst(gone)
            state.archived = max(state.archived, archived)
        }
    }
}
