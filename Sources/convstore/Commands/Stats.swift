import ArgumentParser
import EventLog

struct Stats: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Tells what a store holds, and what it costs.")

    @OptionGroup var store: StoreOption
    @Flag(help: "Print one JSON object.")
    var json = false

    func run() throws {
        let (totals, partial) = try store.readParts { store, beside in (try store.statistics(), beside.count) }
        if json {
            var line = JSONLine()
            line.add("events", totals.events)
            line.add("conversations", totals.conversations)
            line.add("messages", totals.messages)
            line.add("journal_bytes", totals.journalBytes)
            line.add("archive_bytes", totals.archiveBytes)
            line.add("raw_bytes", totals.rawBytes)
            line.add("compressed_bytes", totals.compressedBytes)
            line.add("bytes_per_event", totals.bytesPerEvent, decimals: 2)
            line.add("segments", totals.segments)
            line.add("free_pages", totals.freePages)
            if let oldest = totals.oldestReader { line.add("oldest_reader", oldest) } else { line.addNull("oldest_reader") }
            if let partial { line.add("partial", partial) }
            return try line.print()
        }
        var table = Table([("", .left), ("", .right), ("", .left)])
        table.add("events", Quantity.count(totals.events), "")
        table.add("conversations", Quantity.count(totals.conversations), "")
        if let partial, partial > 0 { table.add("held in part", Quantity.count(partial), "conversations of which something stands beside the log") }
        table.add("messages", Quantity.count(totals.messages), "")
        table.add("journal", Quantity.bytes(totals.journalBytes), "")
        table.add("archive", Quantity.bytes(totals.archiveBytes), "\(Quantity.count(totals.freePages)) free pages")
        let ratio = totals.compressedBytes > 0 ? Quantity.fixed(Double(totals.rawBytes) / Double(totals.compressedBytes), 1) : "–"
        table.add("archived events", Quantity.bytes(totals.rawBytes), "in \(Quantity.bytes(totals.compressedBytes)): \(ratio) to 1")
        table.add("bytes per event", Quantity.fixed(totals.bytesPerEvent, 1), "all files on disk")
        table.add("segments", Quantity.count(totals.segments), "")
        table.add("oldest reader", totals.oldestReader.map { "\(Quantity.count($0)) commits old" } ?? "none", "")
        try table.print()
    }
}
