internal import ConversationStore
internal import EventLog

/// With which times a replica offers own events to a hub that lost them.
///
/// Last-write-wins judged them by no later time than the hub's when it accepted them. A hub that takes them anew goes by its clock of now: one that was made by a
/// clock that was ahead, and had been written over since, would win again. Such a one is offered with the time by which it counted. All others keep their maker's
/// time: by that a copy of this device, or what it sends again itself, is known as the same.
enum OfferedTimes {
    private struct Write {
        /// By which it counted, or counts.
        var time: HLC
        /// The least by which it may count when it comes again.
        var least: HLC
        var registers: [Event.Register]
        /// Among the own events.
        var place: Int?
    }

    /// Own events as they are offered.
    ///
    /// - Parameters:
    ///   - others: what others made, and the hub lost, or may have. Asked for if a clock was ahead.
    ///   - waiting: own ones that no hub has, as far as is known.
    static func offered(_ own: [RecordedEvent], others: () throws -> [RecordedEvent], waiting: [OutboxEntry]) rethrows -> [RecordedEvent] {
        guard own.contains(where: { $0.effectiveTime < $0.origin.hlc && !$0.event.registers.isEmpty }) else { return own }
        var writes = own.enumerated().map { Write(time: $1.effectiveTime, least: $1.origin.hlc, registers: $1.event.registers, place: $0) }
        // When they come again is not known.
        writes += try others().map { Write(time: $0.effectiveTime, least: HLC(rawValue: 0), registers: $0.event.registers) }
        writes += waiting.map { Write(time: $0.origin.hlc, least: $0.origin.hlc, registers: $0.event.registers) }
        writes.removeAll { $0.registers.isEmpty }
        writes.sort { $0.time > $1.time }
        var offered = own
        // Of all that counted later.
        var least: [Event.Register: HLC] = [:]
        var rest = writes[...]
        while let time = rest.first?.time {
            var group = rest.prefix { $0.time == time }
            rest = rest.dropFirst(group.count)
            for index in group.indices {
                guard let place = group[index].place, group[index].registers.contains(where: { least[$0].map { $0 < group[index].least } ?? false }) else {
                    continue
                }
                offered[place].origin.hlc = min(time, offered[place].origin.hlc)
                group[index].least = offered[place].origin.hlc
            }
            for write in group { for register in write.registers { least[register] = min(least[register] ?? write.least, write.least) } }
        }
        return offered
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
