import EventLog
import Interchange

/// Events in memory, a share a writer: whole logs, so that each writer finds its own in order.
struct Workload {
    private(set) var shares: [[Submission]]

    init(_ path: String, writers: Int, limit: Int?) throws {
        shares = Array(repeating: [], count: writers)
        let file = try ImportInput.open(path)
        var origins = ImportOrigins(digest: try file.contentDigest())
        var decoder = EventLineDecoder()
        var lines = try LineReader(file)
        var writerOfLog: [LogID: Int] = [:]
        var count = 0
        var progress = ProgressBar("Reading")
        let total = Double(lines.bytesTotal)
        while count < limit ?? .max, try lines.advance() {
            if lines.isBlank { continue }
            let number = lines.number
            let line: EventLine
            do throws(Refusal) {
                if lines.isTooLong { throw Refusal(.tooLarge, "line") }
                line = try lines.withLine { (bytes) throws(Refusal) in try decoder.decode(bytes) }
            } catch {
                throw Failure(.data, "\(path): line \(number): \(error.code.rawValue) (\(error.detail))")
            }
            // A user's preferences go with the conversation that they name, which must be there first.
            let conversation = LogID.conversation(line.event.conversation)
            let writer = writerOfLog[conversation] ?? writerOfLog.count % writers
            writerOfLog[conversation] = writer
            let origin = line.origin ?? origins.origin(in: line.event.log, at: line.at)
            shares[writer].append(Submission(line.event, origin: origin))
            count += 1
            if count & 1023 == 0 { progress.update(done: Double(lines.bytesRead), total: total, count: count, "events") }
        }
        progress.clear()
        guard count > 0 else { throw Failure(.data, "\(path) holds no events") }
    }
}
