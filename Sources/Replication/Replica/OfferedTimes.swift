internal import ConversationStore
internal import EventLog

/// With which times a replica offers own events to a hub that lost them.
///
/// Last-write-wins judged them by no later time than the hub's when it accepted them. A hub that takes them anew goes by its clock of now: one that was made by a
/// clock that was ahead, and had been written over since, would win again. Such a one is offered with the time by which it counted. All others keep their maker's
/// time: by that a copy of this device, or what it sends again itself, is known as the same.
struct OfferedTimes {
    private struct Write {
        /// By which it counted, or counts.
        var time: HLC
        /// The least that it or one behind it can have when it is offered in its turn.
        var least: HLC
    }

    /// Ascending by their times.
    private var writes: [Event.Register: [Write]] = [:]

    /// - Parameters:
    ///   - others: what others made, and the hub lost.
    ///   - waiting: own ones that no hub has, as far as is known.
    init(own: [RecordedEvent], others: [RecordedEvent], waiting: [OutboxEntry]) {
        guard own.contains(where: Self.isHeldBack) else { return }
        for event in own { add(event.event, Write(time: event.effectiveTime, least: event.origin.hlc)) }
        // When they come again is not known.
        for event in others { add(event.event, Write(time: event.effectiveTime, least: HLC(rawValue: 0))) }
        for entry in waiting { add(entry.event, Write(time: entry.origin.hlc, least: entry.origin.hlc)) }
        for register in writes.keys {
            writes[register]!.sort { $0.time < $1.time }
            var least = HLC(rawValue: .max)
            for place in writes[register]!.indices.reversed() {
                least = min(least, writes[register]![place].least)
                writes[register]![place].least = least
            }
        }
    }

    private mutating func add(_ event: Event, _ write: Write) { for register in event.registers { writes[register, default: []].append(write) } }

    private static func isHeldBack(_ event: RecordedEvent) -> Bool { event.effectiveTime < event.origin.hlc && !event.event.registers.isEmpty }

    /// The event as it is offered.
    func offered(_ event: RecordedEvent) -> RecordedEvent {
        guard Self.isHeldBack(event), event.event.registers.contains(where: { isWrittenOver(event, $0) }) else { return event }
        var offered = event
        offered.origin.hlc = event.effectiveTime
        return offered
    }

    private func isWrittenOver(_ event: RecordedEvent, _ register: Event.Register) -> Bool {
        guard let writes = writes[register] else { return false }
        var (low, high) = (0, writes.count)
        while low < high {
            let middle = (low + high) / 2
            if writes[middle].time <= event.effectiveTime { low = middle + 1 } else { high = middle }
        }
        return low < writes.count && writes[low].least < event.origin.hlc
    }
}

extension Event {
    /// What last-write-wins decides about. Texts are told apart by their bytes.
    enum Register: Hashable {
        case title(ConversationID)
        case attribute(ConversationID, [UInt8])
        case text(ConversationID, MessageID)
        case reaction(ConversationID, MessageID, UserID, [UInt8])
        case preference(ConversationID, UserID, [UInt8])
    }

    /// Those that it writes.
    var registers: [Register] {
        switch content {
        case .conversationCreated: [.title(conversation)]
        case .conversationUpdated(let title, let attributes):
            (title == nil ? [] : [.title(conversation)]) + attributes.map { .attribute(conversation, Array($0.name.utf8)) }
        case .messageEdited(let message, _): [.text(conversation, message)]
        case .reactionSet(let message, let emoji, _): [.reaction(conversation, message, author, Array(emoji.utf8))]
        case .preferenceSet(let key, _): [.preference(conversation, author, Array(key.utf8))]
        default: []
        }
    }
}
