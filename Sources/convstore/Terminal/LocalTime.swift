import Glibc

/// A moment on the user's own clock, as short as it can be understood.
struct LocalTime {
    private static let weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
    private static let months = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
    ]

    let year: Int
    let month: Int
    let dayOfMonth: Int
    let weekday: Int
    let hour: Int
    let minute: Int
    /// Days since 1970 on this clock: what is on one day has the same.
    let day: Int

    /// Milliseconds since 1970.
    init(_ milliseconds: UInt64) {
        var seconds = time_t(clamping: milliseconds / 1000)
        var fields = tm()
        localtime_r(&seconds, &fields)
        year = Int(fields.tm_year) + 1900
        month = Int(fields.tm_mon)
        dayOfMonth = Int(fields.tm_mday)
        weekday = Int(fields.tm_wday)
        hour = Int(fields.tm_hour)
        minute = Int(fields.tm_min)
        let offset = fields.tm_gmtoff
        day = Int((Double(seconds + offset) / 86_400).rounded(.down))
    }

    /// `09:05`.
    var clock: String { Self.two(hour) + ":" + Self.two(minute) }

    /// For a list: the time today, the weekday within a week, else the date.
    func short(now: LocalTime) -> String {
        switch now.day - day {
        case 0: clock
        case 1...6: String(Self.weekdays[weekday].prefix(3))
        default: "\(dayOfMonth) \(Self.months[month].prefix(3))" + (year == now.year ? "" : " \(year)")
        }
    }

    /// For a line between two days.
    func dayTitle(now: LocalTime) -> String {
        switch now.day - day {
        case 0: "Today"
        case 1: "Yesterday"
        default: "\(Self.weekdays[weekday]) \(dayOfMonth) \(Self.months[month])" + (year == now.year ? "" : " \(year)")
        }
    }

    private static func two(_ value: Int) -> String { value < 10 ? "0\(value)" : "\(value)" }
}
