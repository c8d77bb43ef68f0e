import ConversationStore

extension Unconfirmed {
    /// What people are told of what the hub has not accepted.
    var word: String {
        switch self {
        case .pending: "(sending)"
        case .failed(let refusal): "(failed: \(refusal.code.rawValue))"
        }
    }
}
