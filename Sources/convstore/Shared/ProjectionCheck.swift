import ConversationStore

/// Folds the log anew and compares with what a store's projections show (I4). Reads only.
struct ProjectionCheck {
    struct Finding {
        var projection: String
        var digest: [UInt8]
        /// What is wrong; `nil` if it is just the fold.
        var problem: String?
    }

    private static let tries = 3
    let store: StoreOption

    init(_ store: StoreOption) { self.store = store }

    /// A finding for each projection.
    func run() throws -> [Finding] {
        var left = Self.tries
        while true {
            left -= 1
            let before = FileMarks.all(of: store.path)
            let findings: [Finding]
            do {
                findings = try store.with(ConversationStoreOptions(access: .readOnly), compare)
            } catch let error as EventLogError where error.code == .projectionMissing || error.code == .damaged {
                findings = [Finding(projection: Self.conversations, digest: [], problem: error.message)]
            }
            if findings.allSatisfy({ $0.problem == nil }) || FileMarks.all(of: store.path) == before { return findings }
            // What looks wrong may be somebody who writes.
            if left == 0 { throw Failure(.tryAgain, "\(store.path) is being written; its projections can be compared when nobody writes") }
        }
    }

    private static let conversations = "conversations"

    private func compare(_ store: ConversationStore) throws -> [Finding] {
        var progress = ProgressBar("Folding anew")
        defer { progress.clear() }
        return try store.projectionNames.map { name in
            let isFold = try store.isFold(name) { done, total in
                progress.update(done: Double(done), total: Double(total), count: Int(done), "events")
            }
            return Finding(
                projection: name, digest: try store.digest(of: name),
                problem: isFold ? nil : "projection \(name): it is not the fold of the log (I4); run `convstore rebuild`")
        }
    }
}
