/// The seam between the store and what promises to keep its newest events (DESIGN.md, section 11).
///
/// "Append this, in this order, durably; give me all from here." The file is one answer, a replicated log another; nothing above may assume
/// which. One thread appends; the others only ask for a sync or give back what is archived.
protocol Journal: AnyObject, Sendable {
    /// Makes sure that a frame of so many bytes can be appended. Fails with nothing written.
    func reserve(_ bytes: Int) throws -> JournalRoom

    /// Appends a frame at the expected position, after which its events count as written; with `isSynced` as durable.
    /// An error means unknown: the frame may turn up after reopening.
    func append(_ frame: inout ByteBuffer, firstPosition: Position, events: Int, isSynced: Bool) throws

    /// Makes all that was appended durable. Returns the position up to which that holds.
    func sync() throws -> Position

    /// Says that the archive holds everything up to a position: its room may be used anew.
    func recycle(through position: Position)

    /// The number of the frame that was written last.
    var lastFrame: UInt64 { get }

    /// Bytes on disk.
    var bytes: Int { get }

    /// Ends the journal of a store whose events are all archived, and gives its room back.
    func close() throws

    /// Overwrites everything that is archived, so that no byte of it can be read again.
    func wipe() throws
}

enum JournalRoom {
    case ready
    /// Wait until the archive has taken more.
    case full
}
