/// Keys of tokens that may change while a hub runs, so that an issuer's new keys count, and old ones no longer do, without a new start.
///
/// Sessions go on until their tokens expire, whatever becomes of the keys: a token is checked when it is shown.
public protocol TokenKeySource: Sendable {
    /// As they were last read.
    var keys: TokenKeys { get }

    /// When ``refresh()`` is to be called next.
    var refreshSeconds: Double { get }

    /// Looks whether there are other keys.
    ///
    /// - Returns: whether they are others now.
    /// - Throws: `HubServerError`; the keys stay as they were.
    func refresh() async throws(HubServerError) -> Bool

    /// A token named a key that is not among them: looks whether it is there by now, if that may be asked at this time.
    func refreshForUnknownKey() async throws(HubServerError) -> Bool
}

extension TokenKeySource {
    /// Who looks within seconds of a change need not look for each token.
    public func refreshForUnknownKey() async throws(HubServerError) -> Bool { false }
}
