/// What a replica cannot go on with.
public struct ReplicaError: Error, Sendable, CustomStringConvertible {
    public struct Code: Hashable, Sendable {
        private enum Base { case notReplica, otherUser, otherScope, forked, badPeer, refused }
        private let base: Base
        private init(_ base: Base) { self.base = base }
        /// The store exists and is no replica: it was written to directly.
        public static var notReplica: Self { Self(.notReplica) }
        /// The replica is another user's.
        public static var otherUser: Self { Self(.otherUser) }
        /// The replica is a copy of everything, and less was asked for.
        public static var otherScope: Self { Self(.otherScope) }
        /// The hub's history contradicts what it showed before; the evidence is kept.
        public static var forked: Self { Self(.forked) }
        /// The hub sent what the protocol does not allow.
        public static var badPeer: Self { Self(.badPeer) }
        /// An event that this replica's own store says cannot be.
        public static var refused: Self { Self(.refused) }
    }
    public let code: Code
    public let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
