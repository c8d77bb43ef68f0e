internal import ConversationStore
internal import EventLog

/// The reducers' states at seqs that were asked for last: made from a log's beginning once, and not once for each device that comes.
///
/// Safe to use from any thread. What an erasure took from the log is forgotten here too.
final class BaseCache: Sendable {
    private struct Place: Hashable {
        var conversation: ConversationID
        var seq: Seq
    }

    private struct State {
        var bases: [Place: (bytes: [UInt8], lastUse: UInt64)] = [:]
        var bytes = 0
        var uses: UInt64 = 0
        /// The logs' secrets as of which the states were made.
        var secrets: AnyObject?
    }

    private let store: ConversationStore
    private let bytesMax: Int
    private let state = Monitor(State())
    /// What a state costs beside its bytes, about.
    private static let overhead = 128

    init(store: ConversationStore, bytesMax: Int = 16 << 20) {
        self.store = store
        self.bytesMax = bytesMax
    }

    /// A conversation's state at a seq; `nil` if its log does not reach so far. Where it is neither the newest nor known, the log is folded up to there.
    func base(of conversation: ConversationID, at seq: Seq, _ effort: inout Effort) throws -> [UInt8]? {
        if let newest = try store.encodedBase(of: conversation), newest.seq == seq { return newest.base }
        let place = Place(conversation: conversation, seq: seq)
        let secrets = store.log.secretsVersion
        let known = state.withLock { state -> [UInt8]? in
            if state.secrets !== secrets {
                state.bases = [:]
                state.bytes = 0
                state.secrets = secrets
            }
            state.uses += 1
            state.bases[place]?.lastUse = state.uses
            return state.bases[place]?.bytes
        }
        if let known { return known }
        effort.events += Int(clamping: seq)
        guard let base = try store.encodedBase(of: conversation, at: seq) else { return nil }
        state.withLock { state in
            // Something was erased while the state was made: it may hold it.
            guard state.secrets === secrets, base.count <= bytesMax / 8, state.bases[place] == nil else { return }
            state.bases[place] = (base, state.uses)
            state.bytes += base.count + Self.overhead
            while state.bytes > bytesMax, let oldest = state.bases.min(by: { $0.value.lastUse < $1.value.lastUse }) {
                state.bytes -= oldest.value.bytes.count + Self.overhead
                state.bases[oldest.key] = nil
            }
        }
        return base
    }
}
