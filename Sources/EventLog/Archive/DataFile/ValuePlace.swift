#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Where a record's value lies: in its leaf, or on pages of its own.
struct ValuePlace {
    let inline: [UInt8]
    /// The first of its pages, which begins with a header.
    let chain: UInt64?
    let byteCount: Int
    let pageBytes: Int

    /// The numbers of its own pages.
    var pages: Range<UInt64> {
        guard let chain else { return 0..<0 }
        return chain..<chain + PageLayout.chainPages(valueBytes: byteCount, pageBytes: pageBytes)
    }

    /// What of the value a page of its own holds.
    func bytes(onPage page: UInt64) -> Range<Int> {
        let start = Int(page - pages.lowerBound) * pageBytes - PageLayout.headerBytes
        return max(start, 0)..<min(start + pageBytes, byteCount)
    }
}

extension DataFile {
    /// A value's bytes, with zeros in the place of pages that cannot be read.
    borrowing func value(at place: ValuePlace) -> [UInt8] {
        if place.chain == nil { return place.inline }
        var value = [UInt8](repeating: 0, count: place.byteCount)
        let reader = reader, start = place.pages.lowerBound * UInt64(place.pageBytes) + UInt64(PageLayout.headerBytes)
        value.withUnsafeMutableBytes { value in
            guard let base = value.baseAddress, reader.read(value.count, at: start, into: base) != nil else { return }
            for page in place.pages {
                let range = place.bytes(onPage: page)
                if reader.read(range.count, at: start + UInt64(range.lowerBound), into: base + range.lowerBound) != nil {
                    UnsafeMutableRawBufferPointer(rebasing: value[range]).initializeMemory(as: UInt8.self, repeating: 0)
                }
            }
        }
        return value
    }

    /// Visits the pages of the whole file, as many bytes of each as can be read and are asked for.
    borrowing func forEachPage(bytes: Int, pageBytes: Int, _ body: (_ page: UInt64, UnsafeRawBufferPointer?) -> Void) {
        let reader = reader, pages = fileBytes / UInt64(pageBytes), pagesAtOnce = 256
        withUnsafeTemporaryAllocation(byteCount: pagesAtOnce * pageBytes, alignment: 8) { buffer in
            for first in stride(from: UInt64(0), to: pages, by: pagesAtOnce) {
                let count = Int(min(UInt64(pagesAtOnce), pages - first))
                let isRead = reader.read(count * pageBytes, at: first * UInt64(pageBytes), into: buffer.baseAddress!) == nil
                for index in 0..<count {
                    let page = first + UInt64(index), start = index * pageBytes
                    let isRead = isRead || reader.read(pageBytes, at: page * UInt64(pageBytes), into: buffer.baseAddress! + start) == nil
                    body(page, isRead ? UnsafeRawBufferPointer(rebasing: buffer[start..<start + bytes]) : nil)
                }
            }
        }
    }

    /// The pages that the system refuses to read, free ones too.
    borrowing func allUnreadablePages() -> [UInt64] {
        var unreadable: [UInt64] = []
        forEachPage(bytes: 0, pageBytes: pageBytes) { page, bytes in if bytes == nil { unreadable.append(page) } }
        return unreadable
    }

    /// Lends each page that can be read, be it what it may. Reads the whole file.
    borrowing func forEachPage(_ body: (_ page: UInt64, UnsafeRawBufferPointer) -> Void) {
        let pageBytes = pageBytes
        forEachPage(bytes: pageBytes, pageBytes: pageBytes) { page, bytes in if let bytes { body(page, bytes) } }
    }

    var pageBytes: Int {
        if let foundRoot { return foundRoot.pageBytes }
        let metas = readMetas()
        return metas.first.pageBytes ?? metas.second.pageBytes ?? Int(getpagesize())
    }
}
