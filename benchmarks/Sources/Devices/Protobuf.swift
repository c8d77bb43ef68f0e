/// Frames of docs/convstore.proto that a load needs, without what a replica keeps for them.
enum Protobuf {
    static func number(_ field: UInt64, _ value: UInt64) -> [UInt8] { varint(field << 3) + varint(value) }

    static func bytes(_ field: UInt64, _ value: [UInt8]) -> [UInt8] { varint(field << 3 | 2) + varint(UInt64(value.count)) + value }

    private static func varint(_ value: UInt64) -> [UInt8] {
        var rest = value
        var bytes: [UInt8] = []
        while rest >= 0x80 {
            bytes.append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }
}
