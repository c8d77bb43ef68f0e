internal import CLMDB
internal import CZstd

/// What this build is made of: for `--version` and for reports of faults.
public enum EventLogVersions {
    /// The newest format of a store's files that is read, and the one that is written.
    public static var format: UInt32 { Format.version }

    /// The system's LMDB, such as `0.9.24`.
    public static var lmdb: String {
        var major: CInt = 0
        var minor: CInt = 0
        var patch: CInt = 0
        _ = mdb_version(&major, &minor, &patch)
        return "\(major).\(minor).\(patch)"
    }

    /// The system's zstd, such as `1.5.5`.
    public static var zstd: String { String(cString: ZSTD_versionString()) }
}
