import Synchronization

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A file of keys that may change while a hub runs, so that an issuer's new keys count, and old ones no longer do, without a new start.
///
/// Sessions go on until their tokens expire, whatever becomes of the keys: a token is checked when it is shown.
public final class TokenKeyFile: Sendable {
    public enum Form: Sendable {
        /// One key: ``TokenKeys/file(_:)``.
        case key
        /// A set of public keys: ``TokenKeys/set(_:)``.
        case set
    }

    /// What changes when a file is written or another is put in its place.
    private struct Stamp: Hashable {
        var inode: UInt64 = 0
        var size: Int64 = 0
        var seconds = 0
        var nanoseconds = 0

        init(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return }
            inode = UInt64(status.st_ino)
            size = Int64(status.st_size)
            #if canImport(Glibc)
                let time = status.st_mtim
            #else
                let time = status.st_mtimespec
            #endif
            seconds = time.tv_sec
            nanoseconds = time.tv_nsec
        }
    }

    private let path: String
    private let form: Form
    private let state: Mutex<(keys: TokenKeys, stamp: Stamp)>

    /// Reads the file.
    ///
    /// - Throws: `HubServerError` `invalidTokenKey`.
    public init(_ path: String, _ form: Form) async throws(HubServerError) {
        self.path = path
        self.form = form
        // Before the reading: what changes meanwhile is read again.
        let stamp = Stamp(path)
        state = Mutex((try await Self.read(path, form), stamp))
    }

    /// As they were last read.
    public var keys: TokenKeys { state.withLock { $0.keys } }

    /// Reads the file again if it changed, and says whether it did.
    ///
    /// - Throws: `HubServerError` `invalidTokenKey` once for each change to something that cannot be used; the keys stay as they were.
    public func refresh() async throws(HubServerError) -> Bool {
        let stamp = Stamp(path)
        let isNew = state.withLock { state in
            defer { state.stamp = stamp }
            return state.stamp != stamp
        }
        guard isNew else { return false }
        let keys = try await Self.read(path, form)
        state.withLock { $0.keys = keys }
        return true
    }

    private static func read(_ path: String, _ form: Form) async throws(HubServerError) -> TokenKeys {
        switch form {
        case .key: try await TokenKeys.file(path)
        case .set: try await TokenKeys.set(path)
        }
    }
}
