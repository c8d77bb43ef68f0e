import EventLog

/// What a user has to do with a conversation: whether it is in the user's lobby, and the user's own preferences of it.
struct MemberRow: TableRow {
    var isIn = false
    /// Ascending by key; those that were removed too.
    var preferences: [(key: String, value: Register<String?>)] = []

    init() {}

    func encode(into writer: inout RowWriter) {
        writer.put(byte: isIn ? 1 : 0)
        writer.put(UInt64(preferences.count))
        for (key, register) in preferences {
            writer.put(key)
            writer.put(register.value)
            writer.put(register.stamp)
        }
    }

    init(decoding reader: inout RowReader) throws {
        isIn = try reader.byte() == 1
        for _ in 0..<(try reader.count()) {
            let key = try reader.text()
            var register = Register<String?>(try reader.optionalText())
            register.stamp = try reader.optionalStamp()
            preferences.append((key, register))
        }
    }

    var memoryBytes: Int { preferences.reduce(32) { $0 + 120 + $1.key.utf8.count + ($1.value.value?.utf8.count ?? 0) } }

    /// Whether there is nothing to keep.
    var isEmpty: Bool { !isIn && preferences.isEmpty }

    mutating func setPreference(_ key: String, _ value: String?, _ stamp: Stamp) { Self.write(&preferences, key, value, stamp) }

    static func write(_ registers: inout [(key: String, value: Register<String?>)], _ key: String, _ value: String?, _ stamp: Stamp) {
        var low = 0
        var high = registers.count
        while low < high {
            let middle = (low + high) / 2
            if compareBytes(registers[middle].key, key) < 0 { low = middle + 1 } else { high = middle }
        }
        if low == registers.count || compareBytes(registers[low].key, key) != 0 { registers.insert((key, Register(nil)), at: low) }
        registers[low].value.write(value, stamp)
    }
}

/// A user's place in a conversation. Users' names can be long, so a hash stands for them.
struct MemberKey: TableKey {
    var user: UserHash
    var conversation: ConversationID

    var keyBytes: [UInt8] {
        withUnsafeBytes(of: (user.high.bigEndian, user.low.bigEndian, conversation.high.bigEndian, conversation.low.bigEndian)) { Array($0) }
    }
    var keyByteCount: Int { 32 }

    var lockBits: UInt64 { user.low ^ conversation.low }
    var sortPrefix: UInt64 { user.high }

    /// As that of the conversation, which knows secrets of the process; the user goes where a table's own seed goes.
    func _rawHashValue(seed: Int) -> Int { conversation._rawHashValue(seed: seed &+ Int(truncatingIfNeeded: user.high)) }

    init(_ user: UserHash, _ conversation: ConversationID) {
        self.user = user
        self.conversation = conversation
    }

    init?(keyBytes: UnsafeRawBufferPointer) {
        guard keyBytes.count == 32, let user = UserHash(bytes: keyBytes.prefix(16)), let conversation = ConversationID(bytes: keyBytes.dropFirst(16))
        else { return nil }
        self.init(user, conversation)
    }

    static func isAscending(_ left: Self, _ right: Self) -> Bool {
        left.user == right.user ? left.conversation < right.conversation : left.user < right.user
    }
}

enum UserHashTag {}
/// The first half of the SHA-256 of a user's name.
typealias UserHash = Identifier<UserHashTag>

extension UserHash {
    init(_ user: UserID) {
        var name = user.string
        let hash = name.withUTF8 { name in
            var hasher = SHA256Hasher()
            hasher.update(UnsafeRawBufferPointer(name))
            return hasher.finalize()
        }
        self = hash.withUnsafeBytes { UserHash(bytes: $0.prefix(16))! }
    }
}

/// A message that is being streamed, and who began it.
struct StreamRow: TableRow {
    var message: MessageID
    var author: UserID
    var replica: ReplicaID

    func encode(into writer: inout RowWriter) {
        writer.put(message)
        writer.put(author.string)
        writer.put(replica)
    }

    init(message: MessageID, author: UserID, replica: ReplicaID) {
        self.message = message
        self.author = author
        self.replica = replica
    }

    init(decoding reader: inout RowReader) throws {
        message = try reader.identifier()
        author = try reader.user()
        replica = try reader.identifier()
    }
}
