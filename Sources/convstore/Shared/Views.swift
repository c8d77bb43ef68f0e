import ConversationStore
import Interchange

/// A conversation for people.
struct TimelineView {
    let page: TimelinePage
    init(_ page: TimelinePage, in store: ConversationStore) { self.page = page }
    func print() throws {
        for message in page.messages { try StandardOutput.shared.writeLine(Sanitizer.harmless("\(message.author): \(message.text)")) }
    }
}

/// A chat list for people.
struct LobbyView {
    let page: LobbyPage
    init(_ page: LobbyPage, of user: UserID) { self.page = page }
    func print() throws {
        for row in page.rows { try StandardOutput.shared.writeLine(Sanitizer.harmless("\(row.title ?? "") \(row.unread)")) }
    }
}
