/// A measurement and the disk alone, each in turn: so that both meet the same minutes of a machine that others share.
enum Turn {
    private static let seconds = 5

    /// Seconds of each turn of a measurement.
    static func lengths(of total: Int) -> [Int] {
        stride(from: 0, to: total, by: seconds).map { min(seconds, total - $0) }
    }

    /// The disk's turn: the hub stands still, and what it and its devices were still writing has had time to be done.
    static func ofDisk(_ disk: DiskPair, seconds: Int, hub: HubProcess) async throws {
        try await Task.sleep(for: .seconds(1))
        hub.pause()
        defer { hub.resume() }
        await disk.run(seconds: seconds)
    }
}
