import EventLog
import Interchange

/// Reads the inputs on a thread of its own and sends batches while the last one is being committed.
struct ImportReader: Sendable {
    private static let submissionsMax = 2048
    private static let bytesMax = 2 << 20

    /// The first refused line was sent; nothing behind it may be read.
    private struct Stop: Error {}

    let input: ImportInput
    let format: ImportFormat
    /// Whether to go on behind a refused line.
    let goesOn: Bool
    /// Where a recorded stream tells no time: milliseconds since 1970.
    let now: UInt64
    let batches = Handoff<ImportBatch>(capacity: 2)

    func start() {
        WorkerThread.start {
            do {
                var bytes = (before: 0, total: input.sizes.reduce(0, +))
                for (path, size) in zip(input.paths, input.sizes) { try read(path, expected: size, &bytes) }
                batches.finish()
            } catch is Stop {
                batches.finish()
            } catch {
                batches.finish(throwing: error)
            }
        }
    }

    private func read(_ path: String, expected: Int, _ bytes: inout (before: Int, total: Int)) throws {
        let file = try ImportInput.open(path)
        let size = file.size
        bytes.total += size - expected
        var filling = Filling(batch: ImportBatch(file: path, bytesRead: bytes.before, bytesTotal: bytes.total), bytesBefore: bytes.before)
        do {
            switch format {
            case .events: try readEvents(file, &filling)
            case .dialogue: try readDialogue(file, &filling)
            case .stream: try readStream(file, &filling)
            }
        } catch let error as InputError {
            // What was read before stands.
            try send(&filling)
            throw error
        }
        bytes.before += size
        filling.batch.bytesRead = bytes.before
        try send(&filling)
    }

    private func readEvents(_ file: consuming InputFile, _ filling: inout Filling) throws {
        var origins = ImportOrigins(digest: try file.contentDigest())
        var decoder = EventLineDecoder()
        var lines = try LineReader(file)
        while try lines.advance() {
            if lines.isBlank { continue }
            let number = lines.number
            filling.bytesRead = lines.bytesRead
            if lines.isTooLong {
                try refuse(Refusal(.tooLarge, "line"), line: number, &filling)
                continue
            }
            let result = lines.withLine { bytes -> Result<(EventLine, Int), Refusal> in
                do throws(Refusal) { return .success((try decoder.decode(bytes), bytes.count)) } catch { return .failure(error) }
            }
            switch result {
            case .success(let (line, bytes)):
                let log = line.event.log
                if let origin = line.origin {
                    origins.count(log)
                    try add(Submission(line.event, origin: origin), line: number, bytes: bytes, &filling)
                } else {
                    try add(Submission(line.event, origin: origins.origin(in: log, at: line.at)), line: number, bytes: bytes, &filling)
                }
            case .failure(let refusal):
                if let log = decoder.log { origins.count(log) }
                try refuse(refusal, line: number, &filling)
            }
        }
    }

    private func readDialogue(_ file: consuming InputFile, _ filling: inout Filling) throws {
        var origins = ImportOrigins(digest: try file.contentDigest())
        var dialogue = try DialogueFile(file)
        while let item = try dialogue.nextItem() {
            filling.bytesRead = dialogue.bytesRead
            switch item.outcome {
            case .event(let event, let at):
                let submission = Submission(event, origin: origins.origin(in: event.log, at: at))
                try add(submission, line: item.line, bytes: event.textBytes, &filling)
            case .refused(let refusal, let log):
                if let log { origins.count(log) }
                try refuse(refusal, line: item.line, &filling)
            }
        }
    }

    private func readStream(_ file: consuming InputFile, _ filling: inout Filling) throws {
        let digest = try file.contentDigest()
        var origins = ImportOrigins(digest: digest)
        // The same whether the file is compressed or not, as its conversation is.
        let name = file.isCompressed ? file.name.dropLast(".zst".count) : file.name[...]
        let title = file.name == "-" ? "standard input" : String(name.split(separator: "/").last ?? "")
        do {
            let skipped = try StreamFile.forEachEvent(of: file, digest: digest, title: title, now: now) { event, at, line in
                try add(Submission(event, origin: origins.origin(in: event.log, at: at)), line: line, bytes: event.textBytes, &filling)
            }
            filling.batch.skippedPayloads += skipped
        } catch let error as InputError where error.code == .noKnownWire {
            try refuse(Refusal(.malformed, "no known wire"), line: 1, &filling)
        } catch let error as InputError where error.code == .payloadTooLarge {
            try refuse(Refusal(.tooLarge, "payload"), line: error.line ?? 1, &filling)
        }
    }

    // MARK: - Filling batches

    private struct Filling {
        var batch: ImportBatch
        var bytes = 0
        /// Bytes of this file read by now.
        var bytesRead = 0
        let bytesBefore: Int

        init(batch: ImportBatch, bytesBefore: Int) {
            self.batch = batch
            self.bytesBefore = bytesBefore
        }
    }

    private func add(_ submission: Submission, line: Int, bytes: Int, _ filling: inout Filling) throws {
        // What one line gives stays together: it is counted as one if it is refused.
        let isFull = filling.batch.submissions.count >= Self.submissionsMax || filling.bytes >= Self.bytesMax
        if isFull, filling.batch.lines.last != line { try send(&filling) }
        filling.batch.lines.append(line)
        filling.batch.submissions.append(submission)
        filling.bytes += bytes
    }

    private func refuse(_ refusal: Refusal, line: Int, _ filling: inout Filling) throws {
        filling.batch.refused.append(ImportBatch.Refused(line: line, refusal: refusal, before: filling.batch.submissions.count))
        if !goesOn {
            try send(&filling)
            throw Stop()
        }
        if filling.batch.refused.count >= Self.submissionsMax { try send(&filling) }
    }

    private func send(_ filling: inout Filling) throws {
        if filling.bytesRead > 0 { filling.batch.bytesRead = filling.bytesBefore + filling.bytesRead }
        var next = ImportBatch(file: filling.batch.file, bytesRead: filling.batch.bytesRead, bytesTotal: filling.batch.bytesTotal)
        next.lines.reserveCapacity(Self.submissionsMax)
        next.submissions.reserveCapacity(Self.submissionsMax)
        swap(&next, &filling.batch)
        filling.bytes = 0
        if !next.isEmpty { try batches.send(next) }
    }
}

extension Event {
    /// About so many bytes does its text have: bounds a batch.
    fileprivate var textBytes: Int {
        switch content {
        case .messageSent(let message): message.text.utf8.count + 64
        case .chunkAppended(_, _, let text): text.utf8.count + 64
        default: 256
        }
    }
}
