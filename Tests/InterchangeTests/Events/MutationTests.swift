import EventLog
import Foundation
import Interchange
import Testing
import StoreTesting

@Suite("Any bytes") struct MutationTests {
    @Test("changed lines are read or refused, and what is read survives a round trip") func mutatedLines() throws {
        var generator = SeededGenerator(seed: 7)
        var seeds: [[UInt8]] = []
        for content in EventLineTests.contents + [.unknown(kind: 99, body: [1, 2, 3])] {
            var line: [UInt8] = []
            EventLineEncoder(isExact: true).append(EventLineTests.record(content), secret: [1, 2, 3], to: &line)
            if line.count < 2000 { seeds.append(Array(line.dropLast())) }
        }
        let tokens = ["\"", "\\", "{", "}", "[", "]", ":", ",", "\\u", "\\ud83d", "null", "1e9", "-0", "\u{0}", "NaN", "\"type\":", " "].map { Array($0.utf8) }
        var decoder = EventLineDecoder()
        var accepted = 0
        let end = ContinuousClock.now + .seconds(2)
        while ContinuousClock.now < end {
            var line = seeds.randomElement(using: &generator)!
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let at = Int.random(in: 0..<max(1, line.count), using: &generator)
                switch Int.random(in: 0..<6, using: &generator) {
                case 0: if !line.isEmpty { line[at] = UInt8.random(in: 0...255, using: &generator) }
                case 1: line.insert(contentsOf: tokens.randomElement(using: &generator)!, at: min(at, line.count))
                case 2: line.removeSubrange(at..<min(line.count, at + Int.random(in: 1...9, using: &generator)))
                case 3: line.removeSubrange(at...)
                case 4: line.insert(contentsOf: line[at..<min(line.count, at + 40)], at: at)
                default: if !line.isEmpty { line[at] ^= 1 << UInt8.random(in: 0...7, using: &generator) }
                }
                if line.isEmpty { break }
            }
            _ = try? decoder.decodeExact(line)
            guard let decoded = try? decoder.decode(line) else { continue }
            accepted += 1
            var again: [UInt8] = []
            var record = EventLineTests.record(decoded.event.content)
            record.event = decoded.event
            record.origin.hlc = HLC(milliseconds: decoded.at)
            EventLineEncoder().append(record, to: &again)
            let back = try decoder.decode(again)
            #expect(back.event == decoded.event && back.at == decoded.at)
        }
        #expect(accepted > 100)
    }

    @Test("changed streams end or fail with a typed error") func mutatedStreams() throws {
        var generator = SeededGenerator(seed: 8)
        let seeds = try Fixtures.objects("streams/index.jsonl").compactMap { $0["file"] as? String }.map { Array(try Fixtures.data($0)) }
            .filter { $0.count < 8000 }
        for _ in 0..<300 {
            var bytes = seeds.randomElement(using: &generator)!
            for _ in 0..<Int.random(in: 1...20, using: &generator) {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
            }
            let (isLines, isLive) = (Bool.random(using: &generator), Bool.random(using: &generator))
            var stream = RecordedStream(framing: isLines ? .lines : .serverSentEvents, wires: isLive ? .live : .files)
            do throws(InputError) {
                try stream.feed(bytes) { #expect(!$0.text.isEmpty) }
                _ = try stream.finish { _ in }
            } catch { #expect(!error.message.isEmpty) }
        }
    }
}
