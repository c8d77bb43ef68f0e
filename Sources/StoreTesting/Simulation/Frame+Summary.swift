internal import ConversationStore
internal import Replication

extension Frame {
    /// What a trace says of it.
    var summary: String {
        switch self {
        case .hello(let hello):
            "HELLO cursor \(hello.cursor.map { "\($0.position) of \($0.incarnation % 1000)" } ?? "none"), newest \(hello.newest.map { "\($0.log) \($0.seq)" } ?? "none"),"
                + "\(hello.progress.map { " progress \($0.summary)," } ?? "") \(hello.pushed.count) pushed, first screen \(hello.wantsFirstScreen), \(hello.scope)"
        case .welcome(let welcome): "WELCOME\(welcome.isGone ? ", the cursor is gone" : "")"
        case .push(let events): "PUSH of \(events.count)"
        case .segment(let segment): "SEGMENT " + Self.spans((try? SegmentCodec.decode(segment.run)) ?? [])
        case .events(let frame): "EVENTS " + Self.spans(frame.items.compactMap { try? EventCodec.decode(envelope: $0.envelope, body: $0.body) })
        case .fetch(let wishes, let damaged):
            "FETCH " + wishes.map { "\($0.log) from \($0.from) through \($0.through)" }.joined(separator: ", ")
                + (damaged.isEmpty ? "" : ", \(damaged.count) damaged runs")
        case .caughtUp(let caughtUp): "CAUGHT_UP \(caughtUp.cursor.position)"
        case .heads(let heads):
            "HEADS\(heads.isProbe ? ", a probe," : "")\(heads.isLast ? ", the last," : "") "
                + heads.heads.map { "\($0.log) \($0.head.size)" }.joined(separator: ", ")
        case .progress(let progress):
            "PROGRESS \(progress.part.summary)" + (progress.whole.isEmpty ? "" : ", whole: \(progress.whole.map { "\($0)" }.joined(separator: ", "))")
        case .unreadable(let unreadable):
            "UNREADABLE " + unreadable.logs.map { "\($0)" }.joined(separator: ", ")
                + (unreadable.undecided.isEmpty ? "" : ", undecided: \(unreadable.undecided.map { "\($0)" }.joined(separator: ", "))")
        case .base(let base): "BASE \(base.log) at \(base.seq)"
        case .repair(let repair): "REPAIR \(repair.position), \(repair.blocks.count) blocks"
        case .bye(let bye): "BYE \(bye.code) \(bye.reason)"
        case .accepted(let items): "ACCEPTED \(items.count)"
        case .refused(let items): "REFUSED \(items.count)"
        case .credit(let bytes): "CREDIT \(bytes)"
        case .ping, .pong, .token, .typing: "\(self)".prefix { $0 != "(" }.uppercased()
        }
    }

    private static func spans(_ events: [RecordedEvent]) -> String {
        var spans: [(log: LogID, first: Seq, last: Seq)] = []
        for event in events {
            if let index = spans.firstIndex(where: { $0.log == event.log && $0.last + 1 == event.seq }) {
                spans[index].last = event.seq
            } else {
                spans.append((event.log, event.seq, event.seq))
            }
        }
        return spans.map { "\($0.log) \($0.first) to \($0.last)" }.joined(separator: ", ")
    }
}

extension PartialCursor {
    fileprivate var summary: String { "\(cursor.position), whole from \(wholeFrom), part from \(partFrom) through \(partThrough)" }
}
