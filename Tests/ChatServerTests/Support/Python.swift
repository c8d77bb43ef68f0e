import Foundation

/// The scripts in Tests/websockets, which use an implementation of WebSocket that is not ours.
enum Python {
    static let scripts = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("websockets")

    static func file(_ name: String) -> String { scripts.appendingPathComponent(name).path }

    /// Debian's packages are the system's interpreter's, which need not be the first on PATH.
    private static func process(_ script: String, _ arguments: [String]) -> Process {
        let process = Process()
        let system = "/usr/bin/python3"
        process.executableURL = URL(fileURLWithPath: FileManager.default.isExecutableFile(atPath: system) ? system : "/usr/local/bin/python3")
        process.arguments = [file(script)] + arguments
        return process
    }

    /// Runs a script to its end.
    static func run(_ script: String, _ arguments: [String]) async throws -> (status: Int32, output: String) {
        let process = process(script, arguments)
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        process.standardInput = FileHandle.nullDevice
        try process.run()
        return await withCheckedContinuation { continuation in
            Thread {
                let output = pipe.fileHandleForReading.readDataToEndOfFile()
                process.waitUntilExit()
                continuation.resume(returning: (process.terminationStatus, String(decoding: output, as: UTF8.self)))
            }.start()
        }
    }

    /// Starts a server for the length of a closure, which gets its URL.
    static func serve(_ script: String, _ arguments: [String], _ body: (String) async throws -> Void) async throws {
        let process = process(script, arguments)
        let output = Pipe()
        let input = Pipe()
        process.standardOutput = output
        process.standardInput = input
        // It tells of connections that our client cut.
        process.standardError = FileHandle.nullDevice
        try process.run()
        let line: String = await withCheckedContinuation { continuation in
            Thread {
                var bytes = Data()
                while bytes.last != UInt8(ascii: "\n"), let more = try? output.fileHandleForReading.read(upToCount: 1), !more.isEmpty { bytes += more }
                continuation.resume(returning: String(decoding: bytes, as: UTF8.self))
            }.start()
        }
        defer {
            try? input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
        guard let url = line.split(separator: " ").last else { throw CocoaError(.fileReadUnknown) }
        try await body(url.trimmingCharacters(in: .newlines))
    }
}
