/// What somebody who joins a conversation may see of what was said before: the conversation's attribute `history`. A hub goes by what it is when somebody's
/// device asks.
public enum ConversationHistory: String, Sendable, CaseIterable {
    /// Everything, as without the attribute, or with any other value.
    case whole
    /// Nothing: only what follows the joining. Those with whom the conversation was created see everything.
    case fromJoining = "from-joining"

    /// The attribute's name.
    public static let attribute = Event.historyAttribute
}
