import Foundation
import Interchange
import Testing
import StoreTesting

@Suite("Times") struct TimestampTests {
    private func parse(_ text: String) -> UInt64? { Array(text.utf8).withUnsafeBufferPointer(Timestamp.parse) }
    private func loosely(_ text: String) -> UInt64? { Array(text.utf8).withUnsafeBufferPointer(Timestamp.parseLoosely) }

    @Test("every day from 1970 to 9999 is written and read as Foundation does") func everyDay() {
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        var generator = SeededGenerator(seed: 1)
        var wrong: [String] = []
        for day in 0...Timestamp.maximum / 86_400_000 {
            let time = min(Timestamp.maximum, day * 86_400_000 + UInt64.random(in: 0..<86_400_000, using: &generator))
            let text = Timestamp.string(time)
            if parse(text) != time { wrong.append(text) }
            guard day % 997 == 0 else { continue }
            let whole = Date(timeIntervalSince1970: Double(time / 1000)).formatted(style)
            if !whole.hasPrefix(text.prefix(19)) { wrong.append(text) }
        }
        #expect(wrong == [])
        #expect(Timestamp.string(.max) == "9999-12-31T23:59:59.999Z")
    }

    @Test("times as data in the wild has them") func looseTimes() {
        let base: UInt64 = 1_659_797_478_000  // 2022-08-06T14:51:18Z
        for (text, expected) in [
            ("2022-08-06T14:51:18", base), ("2022-08-06T14:51:18.360999", base + 360), ("2022-08-06 14:51:18Z", base),
            ("2022-08-06T14:51", base - 18_000),
            ("2022-08-06T14:51:18+02:00", base - 7_200_000), ("2022-08-06T14:51:18.5-0130", base + 5_400_500),
            ("2022-08-06", base - 53_478_000), ("NaT", nil), ("", nil),
            ("2022-08-06T", nil), ("2022-08-06T25:00:00", nil), ("2022-02-30T00:00:00", nil), ("1969-12-31T23:59:59", nil),
            ("2022-08-06T14:51:18 ", nil),
            ("1970-01-01T00:00:00+01:00", nil), ("2022-08-06T14:51:18.", nil), ("2022-08-06T14:51:18+2", nil),
        ] as [(String, UInt64?)] { #expect(loosely(text) == expected, "\(text)") }
    }
}
