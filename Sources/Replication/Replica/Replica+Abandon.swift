internal import ConversationStore

extension Replica {
    /// As `ConversationStore.abandon`: lets go of the files as a process that is killed does.
    package func abandon() {
        side.close()
        store.abandon()
    }
}
