/// Finds which of a fixed set of ASCII names some bytes spell: one multiplication and, as a rule, one comparison.
struct NameTable: Sendable {
    private struct Slot {
        var head: UInt64 = 0
        var tail: UInt64 = 0
        var count = -1
        var value = 0
        var name: StaticString = ""
    }
    private var slots = [Slot](repeating: Slot(), count: 256)

    init(_ names: [(name: StaticString, value: Int)]) {
        for (name, value) in names {
            let (head, tail) = Self.ends(name.utf8Start, name.utf8CodeUnitCount, readable: name.utf8CodeUnitCount)
            var index = Self.hash(head, tail, name.utf8CodeUnitCount)
            while slots[index].count >= 0 { index = (index + 1) & 255 }
            slots[index] = Slot(head: head, tail: tail, count: name.utf8CodeUnitCount, value: value, name: name)
        }
    }

    /// The number of the name; `nil` if it is none. `readable` bytes from `start` on may be touched, at least `count`.
    @inline(__always)
    func find(_ start: UnsafePointer<UInt8>, count: Int, readable: Int) -> Int? {
        let (head, tail) = Self.ends(start, count, readable: readable)
        var index = Self.hash(head, tail, count)
        return slots.withUnsafeBufferPointer { slots in
            while slots[index].count >= 0 {
                if slots[index].head == head, slots[index].tail == tail, slots[index].count == count {
                    var middle = 8
                    while middle < count - 8, start[middle] == slots[index].name.utf8Start[middle] { middle += 1 }
                    if middle >= count - 8 { return slots[index].value }
                }
                index = (index + 1) & 255
            }
            return nil
        }
    }

    /// The first eight bytes and, of a longer name, the last eight.
    @inline(__always)
    private static func ends(_ start: UnsafePointer<UInt8>, _ count: Int, readable: Int) -> (UInt64, UInt64) {
        let raw = UnsafeRawPointer(start)
        if count > 8 {
            return (raw.loadUnaligned(as: UInt64.self), raw.loadUnaligned(fromByteOffset: count - 8, as: UInt64.self))
        }
        if readable >= 8 {
            let word = UInt64(littleEndian: raw.loadUnaligned(as: UInt64.self))
            return (count == 8 ? word : (word & (1 << UInt64(count * 8) - 1)), 0)
        }
        var word: UInt64 = 0
        for index in 0..<count { word |= UInt64(start[index]) << UInt64(index * 8) }
        return (word, 0)
    }

    @inline(__always)
    private static func hash(_ head: UInt64, _ tail: UInt64, _ count: Int) -> Int {
        Int(((head ^ (tail &* 0x9E37_79B9_7F4A_7C15) ^ UInt64(count)) &* 0xD6E8_FEB8_6659_FD93) >> 56)
    }
}
