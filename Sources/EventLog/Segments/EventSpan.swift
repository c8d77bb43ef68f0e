/// Events of one log that follow each other in a store's order of commits.
package struct EventSpan: Hashable, Sendable {
    package var log: LogID
    package var firstSeq: Seq
    package var count: Int

    package init(log: LogID, firstSeq: Seq, count: Int) {
        self.log = log
        self.firstSeq = firstSeq
        self.count = count
    }

    /// A seq that no log reaches: what is counted from it does not overflow.
    private static let seqMax: Seq = 1 << 62

    /// What spans hold of each log, by its first; `nil` if no run can hold them: too many events, or a log's that do not follow each other.
    package static func ranges(of spans: [EventSpan]) -> [(log: LogID, seqs: ClosedRange<Seq>)]? {
        var ranges: [(log: LogID, seqs: ClosedRange<Seq>)] = []
        var indexes: [LogID: Int] = [:]
        var left = SegmentCodec.eventsMax
        for span in spans {
            guard span.count >= 1, span.count <= left, 1...seqMax ~= span.firstSeq else { return nil }
            left -= span.count
            let last = span.firstSeq + Seq(span.count) - 1
            if let index = indexes[span.log] {
                guard ranges[index].seqs.upperBound + 1 == span.firstSeq else { return nil }
                ranges[index].seqs = ranges[index].seqs.lowerBound...last
            } else {
                indexes[span.log] = ranges.count
                ranges.append((span.log, span.firstSeq...last))
            }
        }
        return ranges
    }
}
