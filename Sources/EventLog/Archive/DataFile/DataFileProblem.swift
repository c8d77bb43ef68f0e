/// One contradiction in the data file: what it is, at which page, and the particulars. Never holds content.
package struct DataFileProblem: Hashable, Sendable, CustomStringConvertible {
    package enum Kind: String, Sendable, CaseIterable {
        /// The meta page that LMDB would use.
        case meta = "meta page"
        /// The meta page of the transaction before, which LMDB would use if the newer one were lost.
        case olderMeta = "older meta page"
        /// The older meta page holds what is newer than it says: either a damaged number hides the last commit, or that commit failed in
        /// the middle of writing its meta page, in which case LMDB itself leaves this behind and the other page is right.
        case metaOrder = "meta page order"
        /// The system refused to read it.
        case unreadable = "unreadable page"
        /// The file ends before a page that is in use.
        case fileTooShort = "file too short"
        case pageOutOfRange = "page out of range"
        case pageUsedTwice = "page used twice"
        /// Another page's content lies there, or none.
        case pageNumber = "page number"
        case pageKind = "page kind"
        case pageBounds = "page bounds"
        case node = "node"
        case keyOrder = "key order"
        case depth = "depth"
        case overflow = "overflow pages"
        case databaseRecord = "database record"
        /// Walked and recorded numbers of pages or entries differ.
        case counts = "counts"
        case freeList = "free list"
        /// Pages neither used nor free. Space is lost and nothing else: no read and no write is endangered by it alone.
        case unaccountedPages = "unaccounted pages"
    }

    package let kind: Kind
    package let page: UInt64
    package let detail: String

    package var description: String { "\(kind.rawValue): page \(page): \(detail)" }
}
