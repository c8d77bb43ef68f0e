import ConversationStore
import StoreTesting

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

let conversation = ConversationID(high: 0xC0, low: 1)
let ann = UserID("ann")!

func message(_ number: UInt64) -> MessageID { MessageID(high: 0xA0, low: number) }

let created = Submission(
    Event(conversation: conversation, author: ann, content: .conversationCreated(kind: .group, title: "talk", participants: [UserID("bob")!])))

func sent(_ number: UInt64, _ text: String) -> Submission {
    Submission(Event(conversation: conversation, author: ann, content: .messageSent(Event.Message(id: message(number), role: .user, text: text))))
}
