import ArgumentParser
import EventLog
import Replication

struct Copy: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Makes a consistent copy of a store, also of one that is being written.")

    @OptionGroup var store: StoreOption
    @Argument(help: ArgumentHelp("The new store's directory; it must not exist.", valueName: "destination"))
    var destination: String

    func run() throws {
        var progress = ProgressBar("Copying")
        defer { progress.clear() }
        let interruption = Interruption()
        try EventStore.copy(from: store.path, to: destination) { done, total in
            try interruption.check()
            progress.update(doneBytes: done, totalBytes: total)
        }
        try Hub.endOpenings(inCopyAt: destination)
    }
}
