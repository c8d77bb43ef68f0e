import Foundation

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A built program of this package, run beside the tests.
final class ChildProcess {
    private let process = Process()
    private let output = Pipe()

    /// It lies beside the tests, wherever they were built.
    static func path(_ name: String) throws -> String {
        for argument in [(try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""] + CommandLine.arguments {
            guard argument.contains("xctest") else { continue }
            var directory = URL(fileURLWithPath: argument).deletingLastPathComponent()
            while directory.path != "/" {
                let candidate = directory.appendingPathComponent(name).path
                var isDirectory: ObjCBool = false
                if FileManager.default.fileExists(atPath: candidate, isDirectory: &isDirectory), !isDirectory.boolValue { return candidate }
                directory.deleteLastPathComponent()
            }
        }
        throw CocoaError(.fileNoSuchFile)
    }

    init(_ name: String, _ arguments: [String]) throws {
        process.executableURL = URL(fileURLWithPath: try Self.path(name))
        process.arguments = arguments
        process.standardOutput = output
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.standardError
        try process.run()
    }

    /// Waits for its first output; false if it ended without any.
    func isReady() -> Bool { !output.fileHandleForReading.availableData.isEmpty }

    var isRunning: Bool { process.isRunning }

    /// kill -9.
    func kill() {
        #if canImport(Glibc)
            Glibc.kill(process.processIdentifier, SIGKILL)
        #else
            Darwin.kill(process.processIdentifier, SIGKILL)
        #endif
        process.waitUntilExit()
    }

    var status: Int32 {
        process.waitUntilExit()
        return process.terminationStatus
    }
}
