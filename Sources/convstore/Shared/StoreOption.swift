import ArgumentParser
import EventLog

/// `--store`, and the ways to open it.
struct StoreOption: ParsableArguments {
    @Option(name: .customLong("store"), help: ArgumentHelp("The store's directory.", valueName: "store"))
    var path: String

    func validate() throws {
        if path.isEmpty { throw ValidationError("--store is empty; name the store's directory.") }
    }

    /// Opens it beside a writer, if there is one, for the length of the closure.
    func read<Result>(_ body: (EventStore) throws -> Result) throws -> Result {
        try with(StoreOptions(access: .readOnly), body)
    }

    /// Opens what exists, for writing.
    func write<Result>(_ body: (EventStore) throws -> Result) throws -> Result {
        try with(StoreOptions(access: .existing), body)
    }

    /// Closes the store however the closure ends; a failing close counts unless something failed before.
    func with<Result>(_ options: StoreOptions, _ body: (EventStore) throws -> Result) throws -> Result {
        let store = try EventStore.open(at: path, options: options)
        let result: Result
        do {
            result = try body(store)
        } catch {
            try? store.close()
            throw error
        }
        try store.close()
        return result
    }
}
