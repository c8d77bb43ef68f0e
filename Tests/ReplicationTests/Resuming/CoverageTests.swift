import ConversationStore
import Testing

@testable import EventLog
@testable import Replication

/// What a hub tells of a session that has not sent everything.
@Suite struct CoverageTests {
    private let logs = (0..<4).map { LogID.conversation(ConversationID(high: 7, low: UInt64($0))) }
    private func cursor(_ position: Position) -> Cursor { Cursor(store: StoreID(high: 1, low: 1), incarnation: 5, position: position) }
    private func told(_ position: Position, _ whole: Position, _ part: Position, _ through: Position) -> PartialCursor {
        PartialCursor(cursor: cursor(position), wholeFrom: whole, partFrom: part, partThrough: through)!
    }

    @Test func aLogIsHeldUpToWhereItsLastEventSays() {
        let part = told(100, 80, 40, 30)
        #expect([100, 80, 79, 40, 39, 1].map { part.reach($0) } == [100, 100, 30, 30, 0, 0])
        #expect(told(100, 101, 0, 30).reach(100) == 30)
        #expect(PartialCursor(cursor: cursor(100), wholeFrom: 102, partFrom: 0, partThrough: 0) == nil)
        #expect(PartialCursor(cursor: cursor(.max), wholeFrom: 1, partFrom: 0, partThrough: 0) == nil)
        #expect(PartialCursor(cursor: cursor(100), wholeFrom: 0, partFrom: 0, partThrough: 0) == nil)
    }

    @Test(
        "What says less of some log is not told",
        arguments: [
            ((100, 80, 40, 30), (100, 80, 40, 31), true), ((100, 80, 40, 30), (100, 80, 40, 29), false), ((100, 80, 40, 30), (100, 81, 40, 30), false),
            ((100, 80, 40, 30), (100, 80, 41, 50), false), ((100, 80, 40, 30), (100, 40, 40, 0), true), ((100, 80, 40, 30), (100, 41, 41, 0), false),
            ((100, 80, 80, 0), (120, 80, 80, 0), true), ((100, 101, 1, 30), (120, 121, 1, 30), true), ((100, 101, 1, 30), (120, 121, 1, 29), false),
            ((100, 1, 1, 0), (120, 90, 1, 80), false), ((100, 80, 40, 30), (120, 110, 1, 90), false), ((100, 80, 80, 0), (120, 80, 60, 7), true),
        ] as [((Position, Position, Position, Position), (Position, Position, Position, Position), Bool)])
    func order(_ old: (Position, Position, Position, Position), _ new: (Position, Position, Position, Position), _ isAtLeast: Bool) {
        let (old, new) = (told(old.0, old.1, old.2, old.3), told(new.0, new.1, new.2, new.3))
        #expect(new.isAtLeast(old) == isAtLeast)
        #expect(new.isAtLeast(nil) && new.isAtLeast(new))
    }

    @Test func onlyWhatIsDoneFromTheNewestOnCounts() {
        var feed = Feed()
        for log in logs.prefix(3) { feed.want(log, from: 1) }
        var coverage = Coverage(position: 100, logs: [(logs[0], 10), (logs[1], 20), (logs[2], 50), (logs[3], 60)], told: nil)
        #expect(coverage.progress(feed, now: nil, cursor)?.part == told(100, 51, 51, 0))
        #expect(coverage.progress(feed, now: nil, cursor) == nil)
        // One in the middle is not reached.
        feed = Feed()
        for log in [logs[0], logs[2]] { feed.want(log, from: 1) }
        #expect(coverage.progress(feed, now: nil, cursor) == nil)
        feed = Feed()
        feed.want(logs[0], from: 1)
        #expect(coverage.progress(feed, now: nil, cursor)?.part == told(100, 11, 11, 0))
        #expect(coverage.progress(Feed(), now: nil, cursor)?.part == told(100, 1, 1, 0))
    }

    @Test func itMovesOnWhereNothingThatHappenedSinceIsMissing() {
        var feed = Feed()
        feed.want(logs[0], from: 1)
        var coverage = Coverage(position: 100, logs: [(logs[0], 10), (logs[1], 20)], told: nil)
        coverage.note(logs[2])
        #expect(coverage.progress(feed, now: 110, cursor)?.part == told(110, 11, 11, 0))
        // Of a log that is not whole something happened: it lies elsewhere now.
        coverage.note(logs[0])
        #expect(coverage.progress(feed, now: 120, cursor) == nil)
        #expect(coverage.progress(Feed(), now: 120, cursor)?.part == told(120, 1, 1, 0))
    }

    @Test func ofWhatIsDoneBesideThatTheNamesAreTold() {
        var feed = Feed()
        for log in [logs[0], logs[2]] { feed.want(log, from: 1) }
        var coverage = Coverage(position: 100, logs: [(logs[0], 10), (logs[1], 20), (logs[2], 50), (logs[3], 60)], told: nil)
        // The last one is covered; the second one is not, and is told once.
        #expect(coverage.progress(feed, whole: [logs[1], logs[3]], now: nil, cursor) == Progress(told(100, 51, 51, 0), whole: [logs[1]]))
        #expect(coverage.progress(feed, now: nil, cursor) == nil)
        // One that goes on is told when it has been sent as far, and not before more can be told otherwise.
        feed.want(logs[3], from: 5)
        let new = LogID.user(UserID("bob")!)
        for log in [logs[0], logs[3], new] { coverage.note(log) }
        #expect(coverage.progress(feed, now: 110, cursor) == nil)
        feed = Feed()
        for log in [logs[0], logs[2]] { feed.want(log, from: 1) }
        #expect(coverage.progress(feed, whole: [logs[3], new], now: 120, cursor) == nil)
        feed = Feed()
        feed.want(logs[0], from: 1)
        #expect(coverage.progress(feed, whole: [logs[2]], now: 120, cursor) == Progress(told(100, 11, 11, 0), whole: [logs[3], new]))
        // It covers all that has happened meanwhile.
        #expect(coverage.progress(Feed(), whole: Set(logs + [new]), now: 130, cursor) == Progress(told(130, 1, 1, 0)))
    }

    @Test func soManyNamesAreToldAtOnce() {
        let many = (0..<2500).map { LogID.conversation(ConversationID(high: 9, low: UInt64($0))) }
        var coverage = Coverage(position: 100, logs: (0..<4).map { (logs[$0], Position(10 * $0 + 10)) }, told: nil)
        for log in many { coverage.note(log) }
        let names = (0..<4).map { place in
            var feed = Feed()
            for log in logs.prefix(4 - place) { feed.want(log, from: 1) }
            return coverage.progress(feed, whole: place == 0 ? Set(many) : [], namesMax: place == 2 ? 100 : 1024, now: nil, cursor)?.whole ?? []
        }
        #expect(names.map(\.count) == [1024, 1024, 100, 352] && Set(names.joined()) == Set(many))
    }
}
