// To be deleted: what EventLog is about to offer.
import EventLog

private func pending() -> EventLogError { EventLogError(.invalidArgument, "this build cannot do that yet") }

struct VerifyReport {
    var isSound: Bool
    var events: UInt64
    var conversations: UInt64
    var segments: UInt64
    var problems: [String]
}

extension EventStore {
    func forEachHead(_ body: (Head) throws -> Bool) throws { throw pending() }
    func head(of log: LogID) throws -> Head? { throw pending() }
    static func verify(at path: String, progress: ((_ done: UInt64, _ total: UInt64) -> Void)?) throws -> VerifyReport { throw pending() }
    static func copy(from source: String, to destination: String) throws { throw pending() }
    static func compact(at path: String) throws -> (before: Int, after: Int) { throw pending() }
    func erase(log: LogID, seq: Seq) throws { throw pending() }
    func makeCheckpoint() throws -> String { throw pending() }
    var verifierKey: String { "" }
    func proveInclusion(log: LogID, seq: Seq) throws -> ProofFile { throw pending() }
    func proveConsistency(log: LogID, from: UInt64, to: UInt64) throws -> ProofFile { throw pending() }
    func secret(of log: LogID) throws -> [UInt8] { throw pending() }
}
