/// Numbers users by the bytes of their names, so that a name that was seen before is not made anew. For one thread at a time.
struct UserTable: ~Copyable {
    private var names = ByteBuffer()
    private var ends: [Int] = [0]
    private var users: [UserID] = []
    /// Open addressing: numbers, -1 where nothing lies. A power of two of them.
    private var slots = ContiguousArray<Int32>(repeating: -1, count: 256)

    var count: Int { users.count }

    subscript(number: Int) -> UserID { users[number] }

    mutating func number(of name: UnsafeRawBufferPointer) throws(CodecError) -> Int {
        // Hashed with the process's secret: names come from outside.
        var hasher = Hasher()
        hasher.combine(bytes: name)
        let mask = slots.count - 1
        var slot = hasher.finalize() & mask
        while slots[slot] >= 0 {
            let known = Int(slots[slot])
            let bytes = UnsafeRawBufferPointer(rebasing: names.bytes[ends[known]..<ends[known + 1]])
            if bytes.count == name.count, bytes.isEqual(to: name) { return known }
            slot = (slot + 1) & mask
        }
        guard let user = UserID(try text(of: name)) else { throw CodecError(.badValue) }
        slots[slot] = Int32(users.count)
        users.append(user)
        names.put(name)
        ends.append(names.count)
        if users.count * 2 > slots.count { grow() }
        return users.count - 1
    }

    private mutating func grow() {
        slots = ContiguousArray(repeating: -1, count: slots.count * 2)
        for number in users.indices {
            var hasher = Hasher()
            hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: names.bytes[ends[number]..<ends[number + 1]]))
            var slot = hasher.finalize() & (slots.count - 1)
            while slots[slot] >= 0 { slot = (slot + 1) & (slots.count - 1) }
            slots[slot] = Int32(number)
        }
    }
}
