import ConversationStore
import Glibc

/// The store that is imported into. One that is absent is made when there is something to put into it: an input that holds nothing to keep leaves
/// nothing behind.
final class ImportStore {
    private let path: String
    private let options: ConversationStoreOptions
    private var store: ConversationStore?

    /// Its log, if there is one by now.
    var opened: EventStore? { store?.log }

    /// Opens what is there. Throws what that throws, and 73 if nothing can be made there.
    init(_ option: StoreOption, _ options: ConversationStoreOptions) throws {
        path = option.path
        self.options = options
        do {
            var existing = options
            existing.access = .existing
            store = try ConversationStore.open(at: path, options: existing)
        } catch let error as EventLogError where error.code == .noSuchStore {
            var parent = path[...]
            while parent.count > 1, parent.hasSuffix("/") { parent.removeLast() }
            parent = parent.lastIndex(of: "/").map { $0 == parent.startIndex ? "/" : parent[..<$0] } ?? "."
            guard access(String(parent), F_OK) == 0 else {
                throw Failure(.cannotCreate, "\(path): the directory \(parent) does not exist; make it first")
            }
        }
    }

    /// The store, made if need be.
    func open() throws -> EventStore {
        if let opened { return opened }
        let made = try ConversationStore.open(at: path, options: options)
        store = made
        return made.log
    }

    func close() throws { try store?.close() }
}
