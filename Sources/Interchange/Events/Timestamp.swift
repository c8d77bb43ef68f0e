/// Times as RFC 3339 writes them and as milliseconds since 1970 (UTC), by integer arithmetic only.
public enum Timestamp {
    /// The last millisecond that RFC 3339 can write: 9999-12-31T23:59:59.999Z.
    public static let maximum: UInt64 = 253_402_300_799_999

    /// Reads `YYYY-MM-DDTHH:MM:SS[.f]Z` with one to nine digits of fraction; what is finer than milliseconds is cut off.
    /// `nil` if the form is another, the date does not exist, or the year is before 1970.
    public static func parse(_ text: UnsafeBufferPointer<UInt8>) -> UInt64? {
        guard text.count >= 20, text[text.count - 1] == UInt8(ascii: "Z"), text[10] == UInt8(ascii: "T"),
            let days = date(text), let seconds = time(text, at: 11), days >= 0
        else { return nil }
        var milliseconds: UInt64 = 0
        if text.count > 20 {
            guard text[19] == UInt8(ascii: "."), (22...30).contains(text.count) else { return nil }
            guard let fraction = fraction(text, 20..<text.count - 1) else { return nil }
            milliseconds = fraction
        }
        return (UInt64(days) * 86_400 + seconds) * 1000 + milliseconds
    }

    /// Reads ISO 8601 as data in the wild has it: `T` or a space, seconds and fraction optional, a zone (`Z`, `+HH:MM`,
    /// `+HHMM`, `+HH`) or none, which means UTC; also a date alone. `nil` for what is not a date, and for times before 1970 or after 9999.
    public static func parseLoosely(_ text: UnsafeBufferPointer<UInt8>) -> UInt64? {
        guard text.count >= 10, let days = date(text) else { return nil }
        var milliseconds = days * 86_400_000
        var at = 10
        if at < text.count {
            guard text[at] == UInt8(ascii: "T") || text[at] == UInt8(ascii: "t") || text[at] == 0x20, text.count >= 16,
                let hour = number(text, 11, 2), hour < 24, text[13] == UInt8(ascii: ":"), let minute = number(text, 14, 2), minute < 60
            else { return nil }
            milliseconds += (hour * 60 + minute) * 60_000
            at = 16
            if at < text.count, text[at] == UInt8(ascii: ":") {
                guard let second = number(text, 17, 2), second < 60 else { return nil }
                milliseconds += second * 1000
                at = 19
                if at < text.count, text[at] == UInt8(ascii: ".") || text[at] == UInt8(ascii: ",") {
                    let start = at + 1
                    at = start
                    while at < text.count, text[at] &- 0x30 < 10 { at += 1 }
                    guard at > start, let cut = fraction(text, start..<at) else { return nil }
                    milliseconds += Int(cut)
                }
            }
            guard let offset = zone(text, at: at) else { return nil }
            milliseconds -= offset * 60_000
        }
        guard milliseconds >= 0, milliseconds <= Int(maximum) else { return nil }
        return UInt64(milliseconds)
    }

    /// The time as `YYYY-MM-DDTHH:MM:SS.fffZ`; what is beyond ``maximum`` is written as that.
    public static func string(_ milliseconds: UInt64) -> String {
        var bytes: [UInt8] = []
        append(milliseconds, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    static func append(_ milliseconds: UInt64, to output: inout [UInt8]) {
        let time = Int(min(milliseconds, maximum))
        let (year, month, day) = civil(time / 86_400_000)
        let second = time / 1000 % 86_400
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 24) { text in
            func put(_ value: Int, _ at: Int, _ digits: Int) {
                var value = value
                for index in (at..<at + digits).reversed() {
                    text[index] = 0x30 + UInt8(value % 10)
                    value /= 10
                }
            }
            put(year, 0, 4)
            put(month, 5, 2)
            put(day, 8, 2)
            put(second / 3600, 11, 2)
            put(second / 60 % 60, 14, 2)
            put(second % 60, 17, 2)
            put(time % 1000, 20, 3)
            text[4] = UInt8(ascii: "-")
            text[7] = UInt8(ascii: "-")
            text[10] = UInt8(ascii: "T")
            text[13] = UInt8(ascii: ":")
            text[16] = UInt8(ascii: ":")
            text[19] = UInt8(ascii: ".")
            text[23] = UInt8(ascii: "Z")
            output.append(contentsOf: text)
        }
    }

    // MARK: - Parts

    @inline(__always)
    private static func number(_ text: UnsafeBufferPointer<UInt8>, _ start: Int, _ count: Int) -> Int? {
        guard start + count <= text.count else { return nil }
        var value = 0
        for index in start..<start + count {
            let digit = text[index] &- 0x30
            guard digit < 10 else { return nil }
            value = value * 10 + Int(digit)
        }
        return value
    }

    /// Days since 1970 of a `YYYY-MM-DD` at the beginning; `nil` if there is no such day.
    private static func date(_ text: UnsafeBufferPointer<UInt8>) -> Int? {
        guard let year = number(text, 0, 4), year >= 1, text[4] == UInt8(ascii: "-"), let month = number(text, 5, 2), 1...12 ~= month,
            text[7] == UInt8(ascii: "-"), let day = number(text, 8, 2), day >= 1
        else { return nil }
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let length = month == 2 ? (isLeap ? 29 : 28) : month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31
        return day <= length ? days(year, month, day) : nil
    }

    private static func time(_ text: UnsafeBufferPointer<UInt8>, at start: Int) -> UInt64? {
        guard let hour = number(text, start, 2), hour < 24, text[start + 2] == UInt8(ascii: ":"),
            let minute = number(text, start + 3, 2), minute < 60, text[start + 5] == UInt8(ascii: ":"),
            let second = number(text, start + 6, 2), second < 60
        else { return nil }
        return UInt64((hour * 60 + minute) * 60 + second)
    }

    /// Milliseconds of a fraction's digits.
    private static func fraction(_ text: UnsafeBufferPointer<UInt8>, _ range: Range<Int>) -> UInt64? {
        var value: UInt64 = 0
        for index in 0..<max(3, range.count) {
            let digit = index < range.count ? text[range.lowerBound + index] &- 0x30 : 0
            guard digit < 10 else { return nil }
            if index < 3 { value = value * 10 + UInt64(digit) }
        }
        return value
    }

    /// Minutes that a zone's clock is ahead of UTC; 0 if the text ends here.
    private static func zone(_ text: UnsafeBufferPointer<UInt8>, at start: Int) -> Int? {
        guard start < text.count else { return 0 }
        let rest = text.count - start
        if text[start] | 0x20 == UInt8(ascii: "z") { return rest == 1 ? 0 : nil }
        guard text[start] == UInt8(ascii: "+") || text[start] == UInt8(ascii: "-"), let hours = number(text, start + 1, 2), hours < 24
        else { return nil }
        var minutes = 0
        if rest > 3 {
            let colon = text[start + 3] == UInt8(ascii: ":") ? 1 : 0
            guard rest == 5 + colon, let value = number(text, start + 3 + colon, 2), value < 60 else { return nil }
            minutes = value
        }
        return (text[start] == UInt8(ascii: "-") ? -1 : 1) * (hours * 60 + minutes)
    }

    /// Days since 1970 of a date (Howard Hinnant's `days_from_civil`; years from 1 on).
    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    /// The date of a day since 1970 (`civil_from_days`).
    private static func civil(_ days: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }
}
