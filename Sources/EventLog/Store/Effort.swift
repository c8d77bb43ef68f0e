/// What it took to answer somebody: so that who serves strangers can tell how much one of them asks for.
package struct Effort: Hashable, Sendable {
    /// Events that were read, hashed or folded.
    package var events = 0

    package init(events: Int = 0) { self.events = events }
}
