#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What the process takes, under the names that Prometheus' own libraries use.
struct ProcessFigures {
    private static let start = Double(time(nil))

    /// Reads the start of the process's life off the first use.
    static func begin() { _ = start }

    func write(to text: inout PrometheusText) {
        var usage = rusage()
        #if canImport(Glibc)
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        #else
            getrusage(RUSAGE_SELF, &usage)
        #endif
        let seconds = Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
        text.head("process_cpu_seconds_total", "CPU time used.", "counter")
        text.sample("process_cpu_seconds_total", [], seconds)
        text.gauge("process_start_time_seconds", "When the server began, in seconds since 1970.", Self.start)
        if let bytes = Self.residentBytes { text.gauge("process_resident_memory_bytes", "Memory in use.", bytes) }
        if let count = Self.openFiles { text.gauge("process_open_fds", "Open files and sockets.", Double(count)) }
    }

    private static var residentBytes: Double? {
        guard let file = fopen("/proc/self/statm", "r") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        guard fgets(&line, CInt(line.count), file) != nil else { return nil }
        let words = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self).split(separator: " ")
        guard words.count > 1, let pages = Double(words[1]) else { return nil }
        return pages * Double(sysconf(CInt(_SC_PAGESIZE)))
    }

    private static var openFiles: Int? {
        guard let directory = opendir("/proc/self/fd") else { return nil }
        defer { closedir(directory) }
        var count = -3  // Two that are no files, and the directory itself.
        while readdir(directory) != nil { count += 1 }
        return count
    }
}
