import ArgumentParser
import EventLog
import Replication

struct Conversations: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lists all conversations of a store.",
        discussion: """
            Counts are of the log. What a replica holds of a conversation only in part stands beside the log: then --json says so with hole, the seqs that are \
            missing, beside, how many events there are, and beside_from, the first one's seq.
            """)
    private static let pageRows = 1000

    @OptionGroup var store: StoreOption
    @Flag(help: "Print a JSON object for each.")
    var json = false

    func run() throws {
        try store.readParts { store, beside in
            var columns: [(heading: String, alignment: Table.Alignment)] = [
                ("conversation", .left), ("events", .right), ("messages", .right), ("participants", .left),
            ]
            if !beside.isEmpty { columns.insert(("beside the log", .left), at: 3) }
            var table = Table(columns)
            var count = 0
            var progress = ProgressBar("Listing", isOn: !Terminal.isOutput)
            let total = try Double(store.statistics().conversations)
            var rest = Dictionary(uniqueKeysWithValues: beside.parts.map { ($0.conversation, $0) })
            func list(_ id: ConversationID, _ events: Seq, _ messages: UInt64, _ participants: [UserID], _ part: HeldPart?) throws {
                count += 1
                if count & 255 == 0 { progress.update(done: Double(count), total: total, count: count, "conversations") }
                if json { return try line(id, events, messages, participants, part).print() }
                let people = participants.map(\.string).joined(separator: ", ")
                var cells = [id.description, Quantity.count(events), Quantity.count(messages)]
                if !beside.isEmpty { cells.append(part.map(Self.words) ?? "") }
                cells.append(Terminal.isOutput ? DisplayWidth.cut(Sanitizer.harmless(people), to: max(12, Terminal.columns - 60)) : people)
                table.add(cells)
                if table.count == Self.pageRows { try table.print() }
            }
            try store.forEachLog { log in
                guard case .conversation(let id) = log.log else { return true }
                try list(id, log.events, log.messages, log.participants, rest.removeValue(forKey: id))
                return true
            }
            for part in beside.parts where rest[part.conversation] != nil { try list(part.conversation, 0, 0, [], part) }
            progress.clear()
            if !json {
                if table.count > 0 { try table.print() }
                let partly = beside.isEmpty ? "" : ", \(Quantity.count(beside.parts.count)) of them held only in part"
                try StandardOutput.shared.writeLine(Style.dim(Quantity.count(count, "conversation") + partly))
            }
        }
    }

    private func line(_ id: ConversationID, _ events: Seq, _ messages: UInt64, _ participants: [UserID], _ part: HeldPart?) -> JSONLine {
        var line = JSONLine()
        line.add("conversation_id", id.description)
        line.add("events", events)
        line.add("messages", messages)
        line.add("participants", (part?.participants ?? participants).map(\.string))
        guard let part else { return line }
        if let hole = part.hole { line.add("hole", [hole.lowerBound, hole.upperBound]) }
        line.add("beside", part.events)
        line.addOptional("beside_from", part.firstSeq)
        return line
    }

    /// For people.
    private static func words(_ part: HeldPart) -> String {
        let held = part.firstSeq.map { "\(Quantity.count(part.events)) from @\($0) on" } ?? "none"
        return held + (part.hole.map { ", @\($0.lowerBound) to @\($0.upperBound) missing" } ?? "")
    }
}
