/// Numbers of LMDB 0.9's data format on 64-bit machines, in the machine's byte order.
///
///     page:  number u64, pad u16, flags u16, lower u16, upper u16, offsets u16..., (free), nodes, packed up to the page's end
///     node:  low u16, high u16, flags u16, key size u16, key, value
///     chain: number u64, pad u16, flags u16, pages u32, value over this page and the following ones
enum PageLayout {
    static let headerBytes = 16
    static let nodeHeaderBytes = 8
    static let keyBytesMax = 511

    static let branchFlag: UInt16 = 1
    static let leafFlag: UInt16 = 2
    static let overflowFlag: UInt16 = 4
    static let metaFlag: UInt16 = 8

    /// The value lies in a chain of overflow pages; the node holds the first one's number.
    static let chainedNode: UInt16 = 1
    /// The value is a `TreeRecord`.
    static let databaseNode: UInt16 = 2

    /// How large a node may be before its value moves to overflow pages: a page holds at least two.
    static func nodeBytesMax(pageBytes: Int) -> Int { (((pageBytes - headerBytes) / 2) & -2) - 2 }

    /// How many overflow pages a value needs.
    static func chainPages(valueBytes: Int, pageBytes: Int) -> UInt64 { UInt64((headerBytes - 1 + valueBytes) / pageBytes + 1) }

    /// The header of a value's first page.
    static func chainHeader(page: UInt64, pages: UInt64) -> [UInt8] {
        var out = ByteBuffer(capacity: headerBytes)
        out.put(fixed64: page)
        out.put(fixed32: UInt32(overflowFlag) << 16)
        out.put(fixed32: UInt32(pages))
        return out.array()
    }
}
