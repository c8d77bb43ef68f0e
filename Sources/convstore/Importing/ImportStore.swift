import ConversationStore
import Glibc

/// The store that is imported into. One that is absent is made when there is something to put into it: an input that holds nothing to keep leaves
/// nothing behind.
final class ImportStore {
    private let option: StoreOption
    private let options: ConversationStoreOptions
    private var store: ConversationStore?

    /// The log of the store, if it is there or was made.
    var opened: EventStore? { store?.log }

    /// Opens what is there. Throws what that throws, and 73 if nothing can be made there.
    init(_ option: StoreOption, _ options: ConversationStoreOptions) throws {
        self.option = option
        self.options = options
        do {
            var existing = options
            existing.access = .existing
            store = try option.open(existing)
        } catch let error as EventLogError where error.code == .noSuchStore {
            let path = option.path
            var parent = path[...]
            while parent.count > 1, parent.hasSuffix("/") { parent.removeLast() }
            parent = parent.lastIndex(of: "/").map { $0 == parent.startIndex ? "/" : parent[..<$0] } ?? "."
            guard access(String(parent), F_OK) == 0 else {
                throw Failure(.cannotCreate, "\(path): the directory \(parent) does not exist; make it first")
            }
        }
    }

    /// The log of the store, which is made if need be.
    func open() throws -> EventStore {
        if let opened { return opened }
        let made = try option.open(options)
        store = made
        return made.log
    }

    func close() throws { try store?.close() }
}
