/// What is read.
public enum ReadKind: String, Sendable, CaseIterable, Encodable {
    /// The newest 50 messages of one of all conversations.
    case page
    /// The same of one of the 100 last active.
    case recentPage = "page-recent"
    /// 50 lobby rows of a user who has as many.
    case lobby
    /// The lobby of any participant, most of whom have few conversations.
    case anyLobby = "lobby-any"
    /// One message by conversation and seq.
    case message

    static let rows = 50
    static let recentConversations = 100

    /// Reads a thread and trial: about a second of the slower peer.
    var count: Int {
        switch self {
        case .page, .recentPage: 10_000
        case .lobby: 5_000
        case .anyLobby, .message: 50_000
        }
    }
}
