import EventLog

/// Keys in a file, which is looked at every few seconds.
public final class TokenKeyFile: TokenKeySource {
    public enum Form: Sendable {
        /// One key: ``TokenKeys/file(_:)``.
        case key
        /// A set of public keys: ``TokenKeys/set(_:)``.
        case set
    }

    private let path: String
    private let form: Form
    private let state: Monitor<(keys: TokenKeys, bytes: [UInt8]?)>

    /// Reads the file.
    ///
    /// - Throws: `HubServerError` `invalidTokenKey`.
    public init(_ path: String, _ form: Form) async throws(HubServerError) {
        self.path = path
        self.form = form
        let bytes = try TokenKeys.read(path)
        state = Monitor((try await Self.keys(bytes, path, form), bytes))
    }

    /// As they were last read.
    public var keys: TokenKeys { state.withLock { $0.keys } }

    public var refreshSeconds: Double { 5 }

    /// Reads the file again, and says whether it has changed: it is small.
    ///
    /// - Throws: `HubServerError` `invalidTokenKey` once for each change to something that cannot be used; the keys stay as they were.
    public func refresh() async throws(HubServerError) -> Bool {
        let bytes = try? TokenKeys.read(path)
        let isNew = state.withLock { state in
            defer { state.bytes = bytes }
            return state.bytes != bytes
        }
        guard isNew else { return false }
        guard let bytes else { throw HubServerError(.invalidTokenKey, "\(path) cannot be read any more") }
        let keys = try await Self.keys(bytes, path, form)
        state.withLock { $0.keys = keys }
        return true
    }

    private static func keys(_ bytes: [UInt8], _ path: String, _ form: Form) async throws(HubServerError) -> TokenKeys {
        switch form {
        case .key: try await TokenKeys.key(bytes, path)
        case .set: try await TokenKeys.set(bytes, path)
        }
    }
}
