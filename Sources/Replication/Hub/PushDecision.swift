internal import EventLog

/// What a hub makes of a PUSH before and after its store decides: who may write what, in one place.
struct PushDecision {
    private enum Place {
        case refused(Refused)
        /// The so-many-eth submission.
        case submitted(Int, LogID, Origin)
    }

    private(set) var submissions: [Submission] = []
    private var places: [Place] = []

    /// `nil`: of one of the events it cannot be said whose it is, so that it could not be answered.
    init?(_ events: [PushedEvent], from identity: Identity, replica: ReplicaID) {
        for pushed in events {
            guard let recorded = try? EventCodec.decode(envelope: pushed.envelope, body: pushed.body) else {
                // Whose it is can still be told, so that the replica's outbox goes on.
                guard let (log, origin) = Self.origin(of: pushed.envelope) else { return nil }
                places.append(.refused(Self.refusal(log, origin, "malformed", "the event's bytes cannot be read")))
                continue
            }
            let origin = recorded.origin
            if let (code, detail) = Self.objection(to: recorded, pushed, from: identity, replica: replica) {
                places.append(.refused(Self.refusal(recorded.log, origin, code, detail)))
                continue
            }
            var submission = Submission(recorded.event, origin: origin)
            submission.isFirstSending = pushed.isFirstSending
            submission.restsOn = pushed.restsOn
            submission.former = pushed.former
            submission.mayStandBehind = pushed.mayStandFrom == 0 ? nil : pushed.mayStandFrom - 1
            submission.comparesChunks = true
            submission.comparesTimes = true
            submission.followsConflicts = true
            submission.leavesDamage = true
            submission.newer = recorded.newer
            places.append(.submitted(submissions.count, recorded.log, origin))
            submissions.append(submission)
        }
    }

    /// Of bytes that are no canonical envelope but have these fields.
    private static func origin(of envelope: [UInt8]) -> (LogID, Origin)? {
        try? envelope.withUnsafeBytes { bytes in
            let fields = try Fields(bytes)
            return (try fields.log(), Origin(replica: try fields.identifier(4), counter: fields.number(5), hlc: HLC(rawValue: 0)))
        }
    }

    private static func objection(to recorded: RecordedEvent, _ pushed: PushedEvent, from identity: Identity, replica: ReplicaID) -> (String, String)? {
        let origin = recorded.origin
        let isOwn = pushed.nonce.isEmpty ? origin.replica == replica : Replicas.id(user: identity.user, nonce: pushed.nonce) == origin.replica
        guard isOwn else { return ("forbidden", "the origin is not this replica's") }
        guard identity.isService || recorded.event.author == identity.user else { return ("forbidden", "the author is not the token's user") }
        guard recorded.event.content.kind != nil else { return ("unknown_kind", "kind \(recorded.event.kindNumber)") }
        guard recorded.seq == 0, recorded.hlc.rawValue == 0, recorded.targetSeq == nil, origin.counter > 0 else { return ("malformed", "origin") }
        guard pushed.restsOn < origin.counter else { return ("malformed", "rests_on") }
        guard pushed.former?.counter != 0 else { return ("malformed", "former_counter") }
        return nil
    }

    private static func refusal(_ log: LogID, _ origin: Origin, _ code: String, _ detail: String) -> Refused {
        Refused(log: log, replica: origin.replica, counter: origin.counter, code: code, detail: detail)
    }

    /// What was refused without asking the store, which so knows nothing of it.
    var refusals: [Refused] { places.compactMap { place in if case .refused(let refusal) = place { refusal } else { nil } } }

    /// - Parameters:
    ///   - outcomes: of each submission; `nil`: it was not decided and stays unanswered.
    ///   - isStranger: whether the peer never took part in a conversation: it is told nothing that a conversation which is not there would not tell.
    func answers(
        _ outcomes: some RandomAccessCollection<AppendOutcome?>, isStranger: (ConversationID) -> Bool
    ) -> (accepted: [Accepted], refused: [Refused]) {
        let outcomes = Array(outcomes)
        var accepted: [Accepted] = []
        var refused: [Refused] = []
        for place in places {
            switch place {
            case .refused(let refusal): refused.append(refusal)
            case .submitted(let index, let log, let origin):
                func accept(_ receipt: Receipt, isDuplicate: Bool) {
                    accepted.append(
                        Accepted(
                            log: log, replica: origin.replica, counter: origin.counter, seq: receipt.seq, hlc: receipt.hlc, isDuplicate: isDuplicate))
                }
                switch outcomes[index] {
                case .accepted(let receipt): accept(receipt, isDuplicate: false)
                case .duplicate(let receipt): accept(receipt, isDuplicate: true)
                case .refused(let refusal) where refusal.code == .notParticipant && isStranger(submissions[index].event.conversation):
                    refused.append(Self.refusal(log, origin, RefusalCode.unknownConversation.rawValue, ""))
                case .refused(let refusal): refused.append(Self.refusal(log, origin, refusal.code.rawValue, String(refusal.detail.prefix(1024))))
                case .withdrawn, .undecided, nil: break
                }
            }
        }
        return (accepted, refused)
    }
}
