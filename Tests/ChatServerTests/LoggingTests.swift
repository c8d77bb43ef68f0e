@testable import ChatServer
import EventLog
import Logging
import Testing

@Suite("Logs") struct LoggingTests {
    @Test("What a peer chose stays in its line and steers no terminal") func injection() {
        let lines = Monitor<[String]>([])
        let logger = Logger(label: "test") { label in LineLogHandler(label: label, level: .info) { line in lines.withLock { $0.append(line) } } }
        logger.info("peer said \u{1B}]52;c;eA==\u{7} \"x\"\r\nforged line", metadata: ["name": "a\u{9B}31m\u{202E}b", "plain": "1.2.3.4:5", "empty": ""])
        logger.debug("not logged")
        let all = lines.withLock { $0 }
        #expect(all.count == 1)
        #expect(all[0].hasSuffix("\n"))
        #expect(all[0].dropLast().utf8.allSatisfy { 0x20..<0x7F ~= $0 })
        #expect(all[0].contains("plain=1.2.3.4:5"))
        #expect(all[0].contains("empty=\"\""))
        #expect(all[0].contains("name=\"a\\u{9b}31m\\u{202e}b\""))
    }
}
