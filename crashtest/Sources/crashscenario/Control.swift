#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A fault that the environment plants into the run, and the judge must find.
enum Control: String {
    /// Acknowledges before the sync; a device: before it has come from the hub.
    case sync
    /// A projection's saved position goes on without its rows.
    case fold

    static let chosen = getenv("CRASHSCENARIO_CONTROL").map { String(cString: $0) }.flatMap(Control.init(rawValue:))
}
