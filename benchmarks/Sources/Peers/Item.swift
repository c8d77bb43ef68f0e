public import EventLog

/// An event to append and the time that its line states.
public struct Item: Sendable {
    public var event: Event
    public var milliseconds: UInt64
}

/// Gives out seq and position: what a server on top of a plain database keeps in memory.
struct Sequencer {
    private var last: [ConversationID: Seq] = [:]
    private(set) var position: Position = 0

    /// Goes on after what a database already holds.
    init(after held: ArraySlice<Item>) {
        for item in held { _ = next(item.event.conversation) }
    }

    mutating func next(_ conversation: ConversationID) -> (seq: Seq, position: Position) {
        position += 1
        let seq = last[conversation, default: 0] + 1
        last[conversation] = seq
        return (seq, position)
    }
}
