import EventLog

/// What is shown of a conversation, but for its messages, which lie in pages.
struct ConversationRow: Sendable {
    struct Person: Sendable {
        var user: UserID
        var isIn = false
        /// The furthest seq that a receipt named.
        var deliveredTo: Seq = 0
        var readTo: Seq = 0
        /// The later of `readTo` and the user's own last message: what comes after it is unread.
        var mark: Seq = 0
        /// Messages up to the mark that are not deleted.
        var liveToMark: UInt64 = 0
    }

    /// The last message as a lobby shows it.
    struct Last: Sendable {
        var id: MessageID
        var seq: Seq
        var author: UInt32
        var role: Event.Role
        var state: MessageState
        var sentAt: UInt64
        var snippet: String

        /// The message is about to be added a text.
        mutating func grow(_ message: borrowing MessageRow, by text: String) {
            if message.isErased { return snippet = "" }
            let bytes = snippet.utf8.count
            // One that is cut stays as it is; one that is the whole text so far grows with it, in a memory of its own.
            guard bytes == message.text.utf8.count else { return }
            snippet += text
            if bytes + text.utf8.count > ConversationRow.snippetScalars { snippet = ConversationRow.snippet(snippet) }
        }
    }

    /// A page's first seq, and the messages before it that are not deleted.
    struct Fence: Sendable {
        var firstSeq: Seq
        var liveBefore: UInt64
    }

    /// With more fences than this every second one goes, so that the row stays small however long the conversation is.
    static let fencesMax = 256
    static let snippetScalars = 120
    /// The open page is written anew with every change: it is compressed where that gains most.
    static let openCompressedFrom = 768

    var kind: Event.ConversationKind = .direct
    /// The last seq that was folded.
    var seq: Seq = 0
    /// The hub's clock at the last `message.sent`, or at the creation: what lobbies are ordered by.
    var order: HLC = HLC(rawValue: 0)
    var title = Register<String?>(nil)
    /// Ascending by name.
    var attributes: [(name: String, value: Register<String?>)] = []
    private(set) var people: [Person] = []
    /// Who takes part, ascending.
    private(set) var participants: [UserID] = []
    var messages: UInt64 = 0
    /// Messages that are not deleted.
    var live: UInt64 = 0
    var pages: UInt64 = 0
    /// Of every `stride`-th page.
    var fences: [Fence] = []
    var stride: UInt64 = 1
    /// The first seq of the newest page.
    var openFirstSeq: Seq = 0
    /// The newest page: it changes with nearly every event, as this row does.
    var open = PageRow()
    var last: Last?
    /// The newest system messages that are not deleted, ascending: what a model is told first. A 0 stands for those that were more.
    var systems: [Seq] = []
    static let systemsMax = 8
    /// Where in `people` somebody is; empty while they are few.
    private(set) var index: [UserID: Int] = [:]

    init() {}

    func person(_ user: UserID) -> Int? { Self.person(user, in: people, index) }

    static func person(_ user: UserID, in people: [Person], _ index: [UserID: Int]) -> Int? {
        if index.isEmpty {
            for place in people.indices where people[place].user == user { return place }
            return nil
        }
        return index[user]
    }

    mutating func addPerson(_ user: UserID) -> Int {
        if let known = person(user) { return known }
        append(Person(user: user))
        return people.count - 1
    }

    private mutating func append(_ person: Person) {
        people.append(person)
        if !index.isEmpty {
            index[person.user] = people.count - 1
        } else if people.count > 12 {
            for (place, person) in people.enumerated() { index[person.user] = place }
        }
    }

    /// Says whether that changed anything.
    mutating func setParticipant(_ user: UserID, _ isIn: Bool) -> Bool {
        let place = addPerson(user)
        guard people[place].isIn != isIn else { return false }
        people[place].isIn = isIn
        var low = 0
        var high = participants.count
        while low < high {
            let middle = (low + high) / 2
            if participants[middle] < user { low = middle + 1 } else { high = middle }
        }
        if isIn { participants.insert(user, at: low) } else { participants.remove(at: low) }
        return true
    }

    /// An attribute's value; `nil` if it has none.
    func attribute(_ name: String) -> String? { attributes.first { compareBytes($0.name, name) == 0 }?.value.value ?? nil }

    mutating func editPerson<R>(_ place: Int, _ body: (inout Person) -> R) -> R { body(&people[place]) }

    func user(_ number: UInt32) -> UserID? { Int(number) < people.count ? people[Int(number)].user : nil }

    /// A message up to which somebody's mark may have come is deleted. Never below 0: what a base says of it is a peer's word.
    mutating func countDeleted(_ seq: Seq) {
        live -= min(live, 1)
        for place in fences.indices where fences[place].firstSeq > seq { fences[place].liveBefore -= min(fences[place].liveBefore, 1) }
        for place in people.indices where people[place].mark >= seq { people[place].liveToMark -= min(people[place].liveToMark, 1) }
    }

    /// Whether a seq lies before the first page of a row that began with a base, and may be that of a message that it counts but does not hold.
    func isBelowPages(_ seq: Seq) -> Bool { fences.first.map { $0.liveBefore > 0 && seq > 0 && seq < $0.firstSeq } ?? false }

    mutating func addPage(firstSeq: Seq) {
        if pages % stride == 0 {
            fences.append(Fence(firstSeq: firstSeq, liveBefore: live))
            if fences.count > Self.fencesMax {
                fences = fences.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
                stride *= 2
            }
        }
        pages += 1
        openFirstSeq = firstSeq
    }

    /// Leaves an empty page in the open one's place.
    mutating func takeOpen() -> PageRow {
        var taken = PageRow()
        swap(&taken, &open)
        return taken
    }

    /// The pages in which a seq can lie, and the live messages before the first of them.
    func pages(around seq: Seq) -> (range: Range<UInt64>, liveBefore: UInt64)? {
        guard let first = fences.first, seq >= first.firstSeq else { return nil }
        var low = 0
        var high = fences.count
        while low < high {
            let middle = (low + high) / 2
            if fences[middle].firstSeq <= seq { low = middle + 1 } else { high = middle }
        }
        let fence = low - 1
        let start = UInt64(fence) * stride
        return (start..<min(start + stride, pages), fences[fence].liveBefore)
    }

    /// The first scalars of a text.
    static func snippet(_ text: String) -> String {
        if text.utf8.count <= snippetScalars { return text }
        let cut = text.utf8.withContiguousStorageIfAvailable { bytes -> String in
            var scalars = 0
            for place in bytes.indices where bytes[place] & 0xC0 != 0x80 {
                if scalars == snippetScalars { return String(decoding: UnsafeBufferPointer(rebasing: bytes[..<place]), as: UTF8.self) }
                scalars += 1
            }
            return text
        }
        return cut ?? String(String.UnicodeScalarView(text.unicodeScalars.prefix(snippetScalars)))
    }
}

extension ConversationRow: TableRow {
    func encode(into writer: inout RowWriter) {
        encodeSummary(into: &writer)
        open.encode(into: &writer, compressedFrom: Self.openCompressedFrom)
    }

    /// All but the open page.
    func encodeSummary(into writer: inout RowWriter) {
        writer.put(byte: kind.rawValue)
        writer.put(fixed: order.rawValue)
        writer.put(seq)
        writer.put(title.value)
        writer.put(title.stamp)
        writer.put(UInt64(attributes.count))
        for (name, register) in attributes {
            writer.put(name)
            writer.put(register.value)
            writer.put(register.stamp)
        }
        writer.put(UInt64(people.count))
        for person in people {
            writer.put(person.user.string)
            writer.put(byte: (person.isIn ? 1 : 0) | (person.deliveredTo != 0 ? 2 : 0) | (person.readTo != 0 ? 4 : 0) | (person.mark != 0 ? 8 : 0))
            if person.deliveredTo != 0 { writer.put(person.deliveredTo) }
            if person.readTo != 0 { writer.put(person.readTo) }
            if person.mark != 0 {
                writer.put(person.mark)
                writer.put(person.liveToMark)
            }
        }
        writer.put(messages)
        writer.put(live)
        writer.put(byte: last == nil ? 0 : 1)
        if let last {
            writer.put(last.id)
            writer.put(last.seq)
            writer.put(UInt64(last.author))
            writer.put(byte: last.role.rawValue << 4 | last.state.rawValue)
            writer.put(last.sentAt)
            writer.put(last.snippet)
        }
        writer.put(UInt64(systems.count))
        for seq in systems { writer.put(seq) }
        writer.put(pages)
        writer.put(stride)
        writer.put(openFirstSeq)
        writer.put(UInt64(fences.count))
        var seq: Seq = 0
        var live: UInt64 = 0
        for fence in fences {
            writer.put(fence.firstSeq &- seq)
            writer.put(fence.liveBefore &- live)
            seq = fence.firstSeq
            live = fence.liveBefore
        }
    }

    /// The row without its messages, and without where their pages begin: that depends on when the row was folded how far.
    var summary: ConversationRow {
        var summary = self
        summary.fences = []
        summary.stride = 1
        summary.pages = 0
        summary.openFirstSeq = 0
        summary.open = PageRow()
        return summary
    }

    func packed() -> ConversationRow? {
        guard let packed = open.packed() else { return nil }
        var row = self
        row.open = packed
        return row
    }

    init(decoding reader: inout RowReader) throws {
        try self.init(summary: &reader)
        open = try PageRow(decoding: &reader)
    }

    /// Reads what `encodeSummary` wrote.
    init(summary reader: inout RowReader) throws {
        guard let kind = Event.ConversationKind(rawValue: try reader.byte()) else { throw CodecError(.badValue) }
        self.kind = kind
        order = HLC(rawValue: try reader.fixed())
        seq = try reader.value()
        title.value = try reader.optionalText()
        title.stamp = try reader.optionalStamp()
        for _ in 0..<(try reader.count()) {
            let name = try reader.text()
            var register = Register<String?>(try reader.optionalText())
            register.stamp = try reader.optionalStamp()
            attributes.append((name, register))
        }
        for _ in 0..<(try reader.count()) {
            var person = Person(user: try reader.user())
            let mask = try reader.byte()
            person.isIn = mask & 1 != 0
            if mask & 2 != 0 { person.deliveredTo = try reader.value() }
            if mask & 4 != 0 { person.readTo = try reader.value() }
            if mask & 8 != 0 {
                person.mark = try reader.value()
                person.liveToMark = try reader.value()
            }
            append(person)
        }
        participants = people.filter(\.isIn).map(\.user).sorted()
        messages = try reader.value()
        live = try reader.value()
        if try reader.byte() == 1 {
            let id: MessageID = try reader.identifier()
            let seq = try reader.value()
            let author = try reader.value32()
            let roleAndState = try reader.byte()
            guard let role = Event.Role(rawValue: roleAndState >> 4), let state = MessageState(stored: roleAndState & 15) else {
                throw CodecError(.badValue)
            }
            last = Last(id: id, seq: seq, author: author, role: role, state: state, sentAt: try reader.value(), snippet: try reader.text())
        }
        for _ in 0..<(try reader.count()) { systems.append(try reader.value()) }
        pages = try reader.value()
        stride = try reader.value()
        openFirstSeq = try reader.value()
        var seq: Seq = 0
        var live: UInt64 = 0
        for _ in 0..<(try reader.count()) {
            let (seqStep, liveStep) = (try reader.value(), try reader.value())
            guard seqStep <= self.seq - seq, liveStep <= self.seq - live, seqStep > 0 || fences.isEmpty else { throw CodecError(.badValue) }
            seq += seqStep
            live += liveStep
            fences.append(Fence(firstSeq: seq, liveBefore: live))
        }
        guard isSound else { throw CodecError(.badValue) }
    }

    /// Whether its counts fit together: the reducers and readers count on from them, and take them for places.
    private var isSound: Bool {
        guard seq < 1 << 60, live <= messages, messages <= seq, pages <= messages, systems.count <= Self.systemsMax, stride > 0 else { return false }
        guard fences.count <= Self.fencesMax, UInt64(fences.count) == (pages == 0 ? 0 : (pages - 1) / stride + 1) else { return false }
        guard last.map({ Int($0.author) < people.count && $0.seq <= seq }) ?? true else { return false }
        guard people.allSatisfy({ max($0.deliveredTo, $0.readTo, $0.mark, $0.liveToMark) <= seq }) else { return false }
        guard let newest = fences.last else { return true }
        return newest.firstSeq <= openFirstSeq && openFirstSeq <= seq && newest.liveBefore <= messages
    }

    var memoryBytes: Int { 500 + people.count * 120 + attributes.count * 150 + fences.count * 16 + (last?.snippet.utf8.count ?? 0) + open.memoryBytes }
}
