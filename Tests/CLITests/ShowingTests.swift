import ConversationStore
import Foundation
import Testing

@testable import convstore

@Suite("People's output of chats and lobbies") struct ShowingTests {
    /// What breaks layouts: wide characters, joined pictures, flags, skin tones, combining marks, long words, controls.
    private static let texts = [
        "", " ", "short", String(repeating: "word ", count: 60), String(repeating: "x", count: 300),
        "日本語の長い文章は、単語の間に空白がないので、どこでも改行できますが、句読点は行の先頭に来てはいけません。", "混ぜた mixed テキスト with 漢字 and words, 그리고 한국어도 있습니다",
        String(repeating: "👨‍👩‍👧‍👦", count: 40), String(repeating: "🇩🇪🇫🇷👍🏽❤️1️⃣", count: 20), String(repeating: "e\u{301}\u{323}", count: 200),
        "\u{1B}[31m\u{7}\u{9B}\u{202E}evil\r\n\ttab\u{2028}", "a\n\n    indented code line that is rather long for a narrow terminal\n\tb\n",
        "नमस्ते दुनिया, यह एक परीक्षण है", "שלום עולם זה מבחן", "e" + String(repeating: "\u{301}", count: 500),
    ]

    private func plain(_ line: String) -> String { line.replacing(/\u{1B}\[[0-9;]*m/, with: "") }

    private func isHarmless(_ line: String) -> Bool {
        plain(line).unicodeScalars.allSatisfy { scalar in
            switch scalar.value {
            case 0..<0x20, 0x7F...0x9F, 0x202A...0x202E, 0x2028, 0x2029, 0x200B: false
            default: true
            }
        }
    }

    private static let now: UInt64 = 1_700_000_000_000

    private func message(_ seq: Seq, _ text: String, author: String = "ada", at: UInt64 = now) -> Message {
        var message = Message.sample(seq: seq, author: UserID(author)!, text: text)
        message.sentAt = at
        return message
    }

    @Test("No line is wider than its terminal, and none holds what could steer it", arguments: [20, 21, 25, 39, 40, 47, 48, 80, 111, 200])
    func width(columns: Int) throws {
        let folder = try Folder()
        let store = try ConversationStore.open(at: folder["store"])
        let (ada, karoru, chat) = (UserID("ada")!, UserID("カロル漢字漢字漢字漢字漢字漢字")!, ConversationID.random())
        var contents: [(UserID, Event.Content)] = [(ada, .conversationCreated(kind: .group, title: Self.texts[5], participants: [karoru]))]
        var last: MessageID?
        for (index, text) in Self.texts.enumerated() {
            let (author, id) = (index % 3 == 0 ? ada : karoru, MessageID.random())
            let isStreaming = index % 2 == 1
            contents.append((author, .messageSent(.init(id: id, role: .user, text: isStreaming ? "" : text, isStreaming: isStreaming, replyTo: last))))
            if isStreaming, !text.isEmpty { contents.append((author, .chunkAppended(message: id, index: 0, text: text))) }
            if index % 4 == 1 { contents.append((author, .messageInterrupted(message: id, reason: text))) }
            if index % 6 == 0 { contents.append((author, .messageEdited(message: id, text: text + "!"))) }
            for emoji in ["👍🏽", "\u{1B}[2J", "❤️"] { contents.append((ada, .reactionSet(message: id, emoji: emoji, isOn: true))) }
            contents.append((karoru, .reactionSet(message: id, emoji: "👍🏽", isOn: true)))
            contents.append((ada, .receiptRead(upTo: id)))
            last = id
        }
        contents.append((ada, .messageSent(.init(id: MessageID(high: 1, low: 1), role: .tool, text: "x"))))
        contents.append((ada, .messageDeleted(message: MessageID(high: 1, low: 1))))
        for outcome in try store.log.appendBlocking(contents.map { Submission(Event(conversation: chat, author: $0.0, content: $0.1)) }) {
            guard case .accepted = outcome else {
                Issue.record("\(outcome)")
                return
            }
        }
        let page = try #require(try store.timeline(of: chat, .newest, limit: 12))
        let lines = ChatView(try Chat(page, in: store)).lines(columns: columns, now: Self.now)
        try store.close()
        #expect(lines.count > 20)
        for line in lines {
            #expect(DisplayWidth.of(plain(line)) <= columns, "\(line)")
            #expect(isHarmless(line), "\(line)")
        }
    }

    @Test("A lobby's lines fit too", arguments: [20, 30, 47, 48, 80, 200])
    func lobbyWidth(columns: Int) throws {
        let folder = try Folder()
        let store = try ConversationStore.open(at: folder["store"])
        let ada = UserID("ada")!
        for (index, text) in Self.texts.enumerated() {
            let chat = ConversationID(high: UInt64(index) << 40, low: 7)
            let people = index % 2 == 0 ? [ada, UserID("bob \(text.prefix(30))") ?? UserID("bob")!] : [ada, UserID("bob")!, UserID("カロル")!]
            var events: [Event] = [
                Event(conversation: chat, author: ada, content: .conversationCreated(kind: .group, title: index % 3 == 0 ? nil : text, participants: people)),
                Event(conversation: chat, author: people[1], content: .messageSent(.init(id: .random(), role: .user, text: text))),
            ]
            if index % 4 == 0 { events.append(Event(conversation: chat, author: ada, content: .preferenceSet(key: "pinned", value: "1"))) }
            if index % 5 == 0 { events.append(Event(conversation: chat, author: ada, content: .preferenceSet(key: "draft", value: text))) }
            for outcome in try store.log.appendBlocking(events.map { Submission($0) }) {
                guard case .accepted = outcome else {
                    Issue.record("\(outcome)")
                    return
                }
            }
        }
        let view = LobbyView(try store.lobby(of: ada).rows, of: ada)
        let lines = view.lines(columns: columns, now: Self.now)
        #expect(lines.count == 2 * Self.texts.count)
        for line in lines {
            #expect(DisplayWidth.of(plain(line)) <= columns, "\(line)")
            #expect(isHarmless(line), "\(line)")
        }
        try store.close()
    }

    @Test("A narrow lobby shows enough of each id to name it, where that leaves room for a title", arguments: [20, 21, 30, 47])
    func narrowIDs(columns: Int) throws {
        let folder = try Folder()
        let store = try ConversationStore.open(at: folder["store"])
        let ada = UserID("ada")!
        let ids = [0x1234_5678, 0x1234_9999, 0xABCD_EF01].map { ConversationID(high: $0 << 32, low: 7) }
        let content = Event.Content.conversationCreated(kind: .group, title: "A long title that is cut", participants: [])
        _ = try store.log.appendBlocking(ids.map { Submission(Event(conversation: $0, author: ada, content: content)) })
        let rows = try store.lobby(of: ada).rows
        // On the same day.
        let lines = LobbyView(rows, of: ada).lines(columns: columns, now: rows[0].order.milliseconds)
        try store.close()
        let shown = lines.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
        #expect(shown.map { $0.hasPrefix("abcdef  A") } == [columns >= 25, false, false])
        #expect(shown[1].hasPrefix(columns >= 25 ? "123499  A long" : "A long"))
        #expect(shown.allSatisfy { DisplayWidth.of($0) == columns })
    }

    @Test("Text is broken at spaces, between wide characters, and in words that are longer than a line")
    func wrapping() {
        #expect(TextWrap.lines("one two three", columns: 7) == ["one two", "three"])
        #expect(TextWrap.lines("one  two", columns: 4) == ["one", "two"])
        #expect(TextWrap.lines("abcdefghij", columns: 4) == ["abcd", "efgh", "ij"])
        #expect(TextWrap.lines("日本語、です", columns: 6) == ["日本", "語、で", "す"])
        #expect(TextWrap.lines("ab 日本語", columns: 6) == ["ab 日", "本語"])
        #expect(TextWrap.lines("a\n\n  b", columns: 10) == ["a", "", "  b"])
        #expect(TextWrap.lines("", columns: 10) == [""])
        #expect(TextWrap.lines("👨‍👩‍👧‍👦👨‍👩‍👧‍👦👨‍👩‍👧‍👦", columns: 5) == ["👨‍👩‍👧‍👦👨‍👩‍👧‍👦", "👨‍👩‍👧‍👦"])
    }

    @Test(
        "Columns are those that a terminal takes",
        arguments: [
            ("abc", 3), ("日本", 4), ("e\u{301}", 1), ("한", 2), ("\u{1112}\u{1161}\u{11AB}", 2), ("👩‍👩‍👧", 2), ("👍🏽", 2), ("🇩🇪", 2), ("1\u{FE0F}\u{20E3}", 2),
            ("\u{FF76}\u{FF9E}", 2), ("\u{FF8A}\u{FF9F}\u{FF76}", 3), ("\u{0E01}\u{0E33}", 2), ("\u{0E9B}\u{0EB3}", 2), ("\u{0915}\u{093E}", 2),
            ("\u{1F202}", 2), ("\u{1F237}", 2), ("\u{1F21A}", 2), ("\u{FE12}", 2), ("\u{2329}", 2), ("\u{3248}", 1), ("\u{4DC0}", 2), ("☰", 2),
        ])
    func columns(text: String, columns: Int) { #expect(DisplayWidth.of(text) == columns) }

    @Test("Joiners are kept where scripts need them, and shown where they only hide")
    func joiners() {
        #expect(Sanitizer.harmless("می\u{200C}خواهم") == "می\u{200C}خواهم")
        #expect(Sanitizer.harmless("क्\u{200D}ष") == "क्\u{200D}ष")
        #expect(Sanitizer.harmless("👩\u{200D}💻") == "👩\u{200D}💻")
        #expect(Sanitizer.harmless("ad\u{200C}min") == "ad\\u{200C}min")
        #expect(Sanitizer.harmless("\u{200D}\u{200D}") == "\\u{200D}\\u{200D}")
    }

    @Test("Nothing of a text is lost by wrapping but spaces and line ends")
    func wholeText() {
        for text in Self.texts {
            let harmless = TextWrap.harmless(text)
            for columns in [2, 5, 17, 40] {
                let joined = TextWrap.lines(harmless, columns: columns).joined()
                #expect(joined.filter { $0 != " " } == harmless.filter { $0 != " " && $0 != "\n" }, "\(columns): \(text)")
            }
        }
    }

    @Test("What follows an author's last words closely has no heading of its own; another day, author, or five minutes have")
    func headings() {
        var renderer = MessageRenderer(columns: 80, now: Self.now, lastSeq: 9)
        func lines(_ seq: Seq, _ author: String, minutes: UInt64) -> Int {
            renderer.lines(message(seq, "x", author: author, at: Self.now + minutes * 60_000)).count
        }
        #expect(lines(1, "ada", minutes: 0) == 3)  // day, author, text
        #expect(lines(2, "ada", minutes: 1) == 1)
        #expect(lines(3, "bob", minutes: 1) == 3)  // blank, author, text
        #expect(lines(4, "bob", minutes: 9) == 3)
        #expect(lines(5, "bob", minutes: 60 * 48) == 3)
    }

    @Test("Days and times are as short as they can be understood")
    func times() {
        let now = LocalTime(Self.now)
        let day: UInt64 = 86_400_000
        #expect(LocalTime(Self.now).short(now: now) == now.clock)
        #expect(LocalTime(Self.now - day).short(now: now).count == 3)
        #expect(LocalTime(Self.now - day).dayTitle(now: now) == "Yesterday")
        #expect(LocalTime(Self.now).dayTitle(now: now) == "Today")
        #expect(LocalTime(Self.now - 400 * day).short(now: now).hasSuffix(" 2022"))
        #expect(LocalTime(Self.now + day).short(now: now).contains("Nov"))
        #expect(LocalTime(0).dayTitle(now: now).hasSuffix(LocalTime(0).year == 1970 ? "1970" : "1969"))
    }

    @Test("What is piped elsewhere has 80 columns and no escapes")
    func piped() throws {
        let folder = try Folder()
        let store = folder["store"]
        let chat = try Program.run("new", "--store", store, "--author", "ada", "--title", "\u{1B}[31mPlans").output.trimmingCharacters(in: .newlines)
        for text in Self.texts where !text.contains("\u{2028}") { try Program.run("send", "--store", store, chat, "--author", "ada", "--", text) }
        for arguments in [
            ["lobby", "--store", store, "--user", "ada"], ["timeline", "--store", store, chat], ["window", "--store", store, chat, "--budget", "99"],
        ] {
            let outcome = try Program.run(arguments)
            #expect(outcome.status == 0)
            for line in outcome.output.split(separator: "\n") {
                #expect(DisplayWidth.of(String(line)) <= 80)
                #expect(!line.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x202E }, "\(line)")
            }
        }
    }
}

extension Message {
    /// A message as a store would show it.
    fileprivate static func sample(seq: Seq, author: UserID, text: String) -> Message {
        let folder = try! Folder()
        let store = try! ConversationStore.open(at: folder["store"])
        defer { try? store.close() }
        let chat = ConversationID.random()
        let events: [Event.Content] = [
            .conversationCreated(kind: .group, title: nil, participants: [author]), .messageSent(.init(id: .random(), role: .user, text: text)),
        ]
        _ = try! store.log.appendBlocking(events.map { Submission(Event(conversation: chat, author: author, content: $0)) })
        var message = try! store.timeline(of: chat)!.messages[0]
        message.seq = seq
        return message
    }
}
