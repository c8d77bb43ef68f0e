import EventLog
import Replication

/// What a run does about damaged bytes of its replica.
extension SyncRun {
    /// What may still be done about damage: each once, so that a store which fails again and again is not written again and again.
    struct Healing {
        var repair: (@Sendable () throws -> Repair?)?
        var salvage: (@Sendable () throws -> Void)?
        var isPossible: Bool { repair != nil || salvage != nil }
    }

    func openSound(
        _ healing: inout Healing, _ report: inout Report, _ happenings: inout AsyncStream<Happening>.Iterator
    ) async throws -> Replica {
        while true {
            do { return try open() } catch let error as EventLogError where error.code == .damaged && healing.isPossible {
                try await heal(&healing, &report, &happenings)
            }
        }
    }

    /// Sets a replica right that nobody has open: with what its own parity tells, with bytes of the hub's where it has them, else from what is sound.
    func heal(_ healing: inout Healing, _ report: inout Report, _ happenings: inout AsyncStream<Happening>.Iterator) async throws {
        if let first = healing.repair {
            healing.repair = nil
            if let repair = try first(), try await isRepaired(repair, &report, &happenings) { return }
        }
        let first = healing.salvage
        healing.salvage = nil
        try first?()
    }

    /// Sessions that may end before the hub has answered: a salvaged store cannot be repaired any more, a hub that never answers must not keep it as it is.
    private static let repairsMax = 3

    private func isRepaired(
        _ repair: Repair, _ report: inout Report, _ happenings: inout AsyncStream<Happening>.Iterator
    ) async throws -> Bool {
        defer { repair.close() }
        if repair.restored > 0 || repair.isWhole { observe(.repaired(runs: repair.restored, isWhole: repair.isWhole)) }
        guard repair.asksHub else { return repair.isWhole }
        for number in 1...Self.repairsMax {
            let bye: Bye
            switch try await session(repair, &report, &happenings) {
            case .done(let runs, let isWhole):
                observe(.repaired(runs: runs, isWhole: isWhole))
                return isWhole
            // More is damaged than runs.
            case .failed(let error as EventLogError) where error.code == .damaged: return false
            case .failed(let error): throw error
            case .ended(let end): bye = end
            }
            switch bye.code {
            // A token that is not taken now is not taken for the events either.
            case .unauthenticated, .forbidden, .tokenExpired: if !options.follows { throw notLetIn(bye) }
            case .protocolError, .unsupportedVersion: return false
            default: break
            }
            if number == Self.repairsMax { break }
            let wait = Backoff.milliseconds(failure: number, atLeast: bye.retryAfterMilliseconds)
            observe(.waiting(milliseconds: wait, reason: told(bye)))
            if try await pause(wait, &happenings) { throw Stopped() }
        }
        return false
    }

    private func session(
        _ repair: Repair, _ report: inout Report, _ happenings: inout AsyncStream<Happening>.Iterator
    ) async throws -> RepairEvent {
        let token = try options.token()
        do {
            let (connection, wire) = try await begin(&report) { send, close in
                repair.connect(token: token, scope: options.scope, send: send, close: close) { [continuation] in continuation.yield(.repair($0)) }
            }
            while let happening = await happenings.next() {
                (report.bytesReceived, report.bytesSent) = wire.add(to: report)
                switch happening {
                case .repair(let event): return event
                case .tick: connection.tick()
                case .stop:
                    connection.disconnected()
                    throw Stopped()
                case .event, .outbox, .token: break
                }
            }
            return .ended(Bye(.normal))
        } catch let error as WebSocketError {
            // Unreachable now, it may be asked another time, while the store is as it is.
            guard options.follows else { throw SyncError(error) }
            return .ended(Bye(.goingAway, error.description))
        }
    }
}
