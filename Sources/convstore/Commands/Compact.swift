import ArgumentParser
import EventLog

struct Compact: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Gives free space back, and leaves no byte of what was erased, or of records that were deleted.",
        discussion: "A message that its author deleted is shown no more, but its text stays in the log until `convstore erase` erases it.")

    @OptionGroup var store: StoreOption
    @Flag(help: "Print one JSON object.")
    var json = false

    func run() throws {
        var progress = ProgressBar("Compacting")
        defer { progress.clear() }
        let interruption = Interruption()
        let (before, after) = try EventStore.compact(at: store.path) { done, total in
            try interruption.check()
            progress.update(doneBytes: done, totalBytes: total)
        }
        progress.clear()
        if json {
            var line = JSONLine()
            line.add("before_bytes", before)
            line.add("after_bytes", after)
            return try line.print()
        }
        try StandardOutput.shared.writeLine("\(Quantity.bytes(before)) before, \(Quantity.bytes(after)) now")
    }
}
