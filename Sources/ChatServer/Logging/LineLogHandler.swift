import EventLog
public import Logging

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Logs to standard error, one line each: `2026-11-22T08:00:00.123Z info convstore "socket opened" peer=127.0.0.1:4711`.
///
/// What a peer may have chosen cannot break out of its line or steer a terminal: control characters and what is not ASCII are escaped.
public struct LineLogHandler: LogHandler {
    public var logLevel: Logger.Level
    public var metadata: Logger.Metadata = [:]
    private let label: String
    private let output: @Sendable (String) -> Void

    public init(label: String, level: Logger.Level, output: @escaping @Sendable (String) -> Void = writeToStandardError) {
        self.label = label
        logLevel = level
        self.output = output
    }

    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    public func log(event: LogEvent) {
        var line = "\(Self.time()) \(event.level) \(label) \(Self.quoted("\(event.message)", always: true))"
        let all = event.metadata.map { metadata.merging($0) { _, new in new } } ?? metadata
        for (key, value) in all.sorted(by: { $0.key < $1.key }) { line += " \(key)=\(Self.quoted("\(value)", always: false))" }
        output(line + "\n")
    }

    private static func time() -> String {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        var parts = tm()
        gmtime_r(&now.tv_sec, &parts)
        func digits(_ value: Int, _ count: Int) -> String {
            let text = String(value)
            return String(repeating: "0", count: max(0, count - text.count)) + text
        }
        let day = "\(parts.tm_year + 1900)-\(digits(Int(parts.tm_mon) + 1, 2))-\(digits(Int(parts.tm_mday), 2))"
        let time = "\(digits(Int(parts.tm_hour), 2)):\(digits(Int(parts.tm_min), 2)):\(digits(Int(parts.tm_sec), 2))"
        return "\(day)T\(time).\(digits(now.tv_nsec / 1_000_000, 3))Z"
    }

    static func quoted(_ text: String, always: Bool) -> String {
        if !always, !text.isEmpty, text.utf8.allSatisfy({ 0x21..<0x7F ~= $0 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) { return text }
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x22, 0x5C: result += "\\\(scalar)"
            case 0x20..<0x7F: result.unicodeScalars.append(scalar)
            default: result += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result + "\""
    }
}

private let standardError = Monitor(())

/// Whole lines, never two at once. A log that cannot be written is no reason to stop.
@Sendable public func writeToStandardError(_ line: String) {
    standardError.withLock { _ in
        Array(line.utf8).withUnsafeBytes { bytes in
            var rest = bytes[...]
            while let base = UnsafeRawBufferPointer(rebasing: rest).baseAddress, !rest.isEmpty {
                let count = write(STDERR_FILENO, base, rest.count)
                if count < 0, errno == EINTR { continue }
                if count <= 0 { return }
                rest = rest.dropFirst(count)
            }
        }
    }
}
