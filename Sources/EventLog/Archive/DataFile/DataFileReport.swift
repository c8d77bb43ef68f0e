/// What `DataFile.check` found. If there are problems, the numbers tell how far it came.
package struct DataFileReport: Sendable {
    package struct PageCounts: Hashable, Sendable {
        package var branch: UInt64 = 0
        package var leaf: UInt64 = 0
        package var overflow: UInt64 = 0
    }

    /// The pages of one value.
    struct Chain: Hashable, Sendable {
        /// The first, which begins with a header.
        var page: UInt64
        /// As many as the value needs.
        var pages: UInt32
        /// Whether that header cannot be right; else it tells of more pages.
        var isDamaged: Bool
    }

    /// At most a hundred; the check ends there.
    package internal(set) var problems: [DataFileProblem] = []
    package internal(set) var fileBytes: UInt64
    package internal(set) var pageBytes = 0
    package internal(set) var transactionID: UInt64 = 0
    package internal(set) var lastPage: UInt64 = 0
    /// Those of all trees, the free list's own among them. The two meta pages are in no count.
    package internal(set) var pages = PageCounts()
    package internal(set) var freePages: UInt64 = 0
    package internal(set) var entries: [String: UInt64] = [:]
    /// Those that may be mended by what names them.
    var doubtfulChains: [Chain] = []
    /// Of the pages that were asked for.
    var watchedFree: Set<UInt64> = []

    /// The part of the map that LMDB uses: a file that lacks free pages at its end is shorter.
    package var mapUsedBytes: UInt64 { (lastPage + 1) * UInt64(pageBytes) }
    package var isSound: Bool { problems.isEmpty }
}
