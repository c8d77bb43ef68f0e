/// The message ids and next chunk indexes by the seq of the message.
struct RunTargets {
    private struct Entry {
        var id = MessageID(high: 0, low: 0)
        var hasID = false
        var next: UInt32 = 0
    }

    private var first: Seq = 0
    private var count: UInt64 = 0
    private var own = ContiguousArray<Entry>()
    /// Of messages of earlier runs.
    private var outside: [Seq: Entry] = [:]
    private var last: Seq = 0

    mutating func begin(first: Seq, count: Int) {
        self.first = first
        self.count = UInt64(count)
        own.removeAll(keepingCapacity: true)
        for _ in 0..<count { own.append(Entry()) }
        if !outside.isEmpty { outside.removeAll(keepingCapacity: true) }
        last = 0
    }

    /// The next chunk's index of the target that was asked for or set last.
    var nextIndex: UInt32 {
        get { last &- first < count ? own[Int(last &- first)].next : outside[last]?.next ?? 0 }
        set {
            if last &- first < count {
                own[Int(last &- first)].next = newValue
            } else {
                outside[last]?.next = newValue
            }
        }
    }

    subscript(seq: Seq) -> MessageID? {
        mutating get {
            if seq &- first < count {
                guard own[Int(seq &- first)].hasID else { return nil }
                last = seq
                return own[Int(seq &- first)].id
            }
            guard let found = outside[seq] else { return nil }
            last = seq
            return found.id
        }
        set {
            guard let newValue else { return }
            last = seq
            if seq &- first < count {
                own[Int(seq &- first)].id = newValue
                own[Int(seq &- first)].hasID = true
            } else {
                outside[seq, default: Entry()].id = newValue
                outside[seq]?.hasID = true
            }
        }
    }
}
