import EventLog

/// A set of public keys (JWKS) at a URL of who issues the tokens, fetched at the start, every hour, and when a token names a key that is not among them.
///
/// What was fetched last counts until something that can be used has been fetched: an issuer that is away shuts out nobody.
public final class TokenKeyURL: TokenKeySource {
    package struct Times: Sendable {
        /// Between two looks that nothing asks for.
        package var refreshSeconds = 3600.0
        /// After a look that failed.
        package var retrySeconds = 60.0
        /// Strangers may name what keys they like: for those, nothing is fetched more often.
        package var unknownKeySeconds = 60.0

        package init() {}
    }

    private struct State {
        var keys: TokenKeys
        var bytes: [UInt8]
        /// When an unknown key was last looked for.
        var asked: ContinuousClock.Instant?
        var hasFailed = false
        /// All who want to know at one time share one look.
        var look: Task<Result<Bool, HubServerError>, Never>?
    }

    private let fetch: KeySetFetch
    private let times: Times
    private let state: Monitor<State>

    /// Fetches the keys.
    ///
    /// - Parameters:
    ///   - url: `https://…`; `http://` only of this machine.
    ///   - certificateAuthority: a file of certificates (PEM) to trust instead of the system's.
    /// - Throws: `HubServerError` `invalidURL`, `unreachable`, `invalidCertificate` (of the file), or `invalidTokenKey` if what came is no set of keys.
    public convenience init(_ url: String, certificateAuthority: String? = nil) async throws(HubServerError) {
        try await self.init(KeySetFetch(url, certificateAuthority: certificateAuthority))
    }

    package init(_ fetch: KeySetFetch, times: Times = Times()) async throws(HubServerError) {
        self.fetch = fetch
        self.times = times
        let bytes = try await fetch.bytes()
        state = Monitor(State(keys: try await TokenKeys.set(bytes, fetch.name), bytes: bytes))
    }

    public var keys: TokenKeys { state.withLock { $0.keys } }

    public var refreshSeconds: Double { state.withLock { $0.hasFailed ? times.retrySeconds : times.refreshSeconds } }

    public func refresh() async throws(HubServerError) -> Bool { try await look(atMostEverySeconds: 0) }

    public func refreshForUnknownKey() async throws(HubServerError) -> Bool { try await look(atMostEverySeconds: times.unknownKeySeconds) }

    /// Joins the look that is under way, or begins one if the last such look began long enough ago. It is told of by who began it, so that a log has it once.
    private func look(atMostEverySeconds seconds: Double) async throws(HubServerError) -> Bool {
        let (look, isOwn) = state.withLock { state -> (Task<Result<Bool, HubServerError>, Never>?, Bool) in
            if let look = state.look { return (look, false) }
            if seconds > 0 {
                let now = ContinuousClock.now
                if let asked = state.asked, now - asked < .seconds(seconds) { return (nil, false) }
                state.asked = now
            }
            let look = Task { await self.fetchAnew() }
            state.look = look
            return (look, true)
        }
        guard let result = await look?.value, isOwn else { return false }
        return try result.get()
    }

    private func fetchAnew() async -> Result<Bool, HubServerError> {
        let result: Result<(TokenKeys, [UInt8]), HubServerError>
        do throws(HubServerError) {
            let bytes = try await fetch.bytes()
            result = .success((try await TokenKeys.set(bytes, fetch.name), bytes))
        } catch {
            result = .failure(error)
        }
        return state.withLock { state in
            state.look = nil
            switch result {
            case .success(let (keys, bytes)):
                defer { state.bytes = bytes }
                state.hasFailed = false
                state.keys = keys
                return .success(state.bytes != bytes)
            case .failure(let error):
                state.hasFailed = true
                return .failure(error)
            }
        }
    }
}
