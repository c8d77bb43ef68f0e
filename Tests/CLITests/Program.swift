import Foundation
import Testing

/// The built `convstore`, run as a process.
enum Program {
    struct Outcome {
        var status: Int32
        var output: String
        var errors: String

        var lines: [Substring] { output.split(separator: "\n") }

        /// Each line of output as a JSON object.
        func objects() throws -> [[String: Any]] {
            try lines.map { try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]) }
        }

        func object() throws -> [String: Any] {
            let all = try objects()
            return try #require(all.count == 1 ? all.first : nil, "one object was expected: \(output)")
        }
    }

    /// It lies beside the tests, wherever they were built.
    static let path: String = {
        if let given = ProcessInfo.processInfo.environment["CONVSTORE"] { return given }
        // The tests' own program, or what was given to the one that runs them.
        for argument in [(try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""] + CommandLine.arguments {
            guard argument.contains("xctest") else { continue }
            var directory = URL(fileURLWithPath: argument).deletingLastPathComponent()
            while directory.path != "/" {
                let candidate = directory.appendingPathComponent("convstore").path
                var isDirectory: ObjCBool = false
                if FileManager.default.fileExists(atPath: candidate, isDirectory: &isDirectory), !isDirectory.boolValue { return candidate }
                directory.deleteLastPathComponent()
            }
        }
        return "convstore"
    }()

    static func start(_ arguments: [String], input: Pipe? = nil) throws -> (Process, output: FileHandle, errors: FileHandle, files: Folder) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        let files = try Folder()
        let output = try files.handle("output")
        let errors = try files.handle("errors")
        process.standardOutput = output
        process.standardError = errors
        process.standardInput = input ?? FileHandle.nullDevice
        try process.run()
        return (process, output, errors, files)
    }

    /// One whose output goes to a pipe that nobody reads.
    static func startUnread(_ arguments: [String], input: Pipe? = nil) throws -> (Process, output: Pipe) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        process.standardInput = input ?? FileHandle.nullDevice
        try process.run()
        return (process, output)
    }

    /// Sends SIGINT, and answers the status with which the process ends; kills it and answers -1 if it does not.
    static func interrupt(_ process: Process) -> Int32 {
        process.interrupt()
        if eventually({ !process.isRunning }) { return process.terminationStatus }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        return -1
    }

    /// Asks again and again until it is true; false after a minute, which a machine busy with other tests may need.
    static func eventually(_ condition: () throws -> Bool) -> Bool {
        for _ in 0..<3000 {
            if (try? condition()) ?? false { return true }
            usleep(20_000)
        }
        return false
    }

    @discardableResult
    static func run(_ arguments: String..., input: String? = nil) throws -> Outcome { try run(arguments, input: input) }

    @discardableResult
    static func run(_ arguments: [String], input: String? = nil) throws -> Outcome {
        let pipe = input.map { _ in Pipe() }
        let (process, output, errors, files) = try start(arguments, input: pipe)
        if let input, let pipe {
            try pipe.fileHandleForWriting.write(contentsOf: Data(input.utf8))
            try pipe.fileHandleForWriting.close()
        }
        process.waitUntilExit()
        try output.close()
        try errors.close()
        return Outcome(status: process.terminationStatus, output: try files.text("output"), errors: try files.text("errors"))
    }
}

/// A folder of its own for a test, removed with the value.
final class Folder {
    let path: String

    init() throws {
        path = NSTemporaryDirectory() + "/convstore-cli-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    subscript(_ name: String) -> String { path + "/" + name }

    func text(_ name: String) throws -> String { String(decoding: try Data(contentsOf: URL(fileURLWithPath: self[name])), as: UTF8.self) }

    @discardableResult
    func write(_ name: String, _ text: String) throws -> String {
        try Data(text.utf8).write(to: URL(fileURLWithPath: self[name]))
        return self[name]
    }

    func handle(_ name: String) throws -> FileHandle {
        try write(name, "")
        return try FileHandle(forWritingTo: URL(fileURLWithPath: self[name]))
    }
}

/// Lines of events to import.
enum Lines {
    static let fixtures = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Fixtures").path

    static func id(_ number: Int) -> String { "0000000\(number % 10)-0000-4000-8000-" + String(repeating: "0", count: 10) + String(10 + number) }

    static func created(_ number: Int, title: String = "t") -> String {
        #"{"type":"conversation.created","conversation_id":"\#(id(number))","author":"a","at":"2024-01-01T00:00:00.000Z","#
            + #""kind":"direct","title":"\#(title)","participants":["a","b"]}"# + "\n"
    }

    static func sent(_ number: Int, message: Int, _ text: String) -> String {
        #"{"type":"message.sent","conversation_id":"\#(id(number))","author":"a","at":"2024-01-01T00:00:01.000Z","#
            + #""message_id":"\#(id(message))","role":"user","text":"\#(text)"}"# + "\n"
    }
}
