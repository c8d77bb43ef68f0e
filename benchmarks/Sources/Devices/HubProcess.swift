import Foundation
import Glibc

/// A hub in a process of its own, on a free port of this machine.
final class HubProcess {
    let url: String
    private let process: pid_t

    /// Who may write for others.
    static let service = "devices-service"

    /// Foundation's `Process` fails where thousands of files are open.
    init(_ convstore: String, store: String) throws {
        let words = [
            convstore, "serve", "--store", store, "--listen", "127.0.0.1:0", "--insecure-any-user", "--service-user", Self.service, "--log-level", "error",
        ]
        var ends: [CInt] = [0, 0]
        guard pipe(&ends) == 0 else { throw DeviceError("no pipe: \(errno)") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        var process: pid_t = 0
        let code = posix_spawn(&process, convstore, &actions, nil, &arguments, environ)
        for argument in arguments { free(argument) }
        posix_spawn_file_actions_destroy(&actions)
        close(ends[1])
        guard code == 0 else { throw DeviceError("\(convstore) cannot be started: \(code)") }
        self.process = process
        let output = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
        var line = ""
        while !line.hasSuffix("\n") {
            let bytes = output.availableData
            if bytes.isEmpty { throw DeviceError("the hub ended before it listened") }
            line += String(decoding: bytes, as: UTF8.self)
        }
        guard let url = line.split(separator: "\n").first?.split(separator: " ").last else { throw DeviceError("the hub said \(line)") }
        self.url = String(url)
    }

    /// Takes the processor from it, so that another may have the disk alone.
    func pause() { kill(process, SIGSTOP) }
    func resume() { kill(process, SIGCONT) }

    func stop() {
        resume()
        kill(process, SIGTERM)
        waitpid(process, nil, 0)
    }

    /// Bytes of memory that the process holds, its program's pages and mapped files included, and of those that are its own.
    var memory: (all: Int, own: Int) {
        let status = (try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)) ?? ""
        func bytes(_ name: String) -> Int {
            let line = status.split(separator: "\n").first { $0.hasPrefix(name + ":") }
            return (line?.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap { Int($0) } ?? 0) << 10
        }
        return (bytes("VmRSS"), bytes("RssAnon"))
    }

    /// Seconds of processor so far.
    var processorSeconds: Double { Self.processorSeconds(of: "\(process)") }

    static func processorSeconds(of process: String) -> Double {
        let fields = ((try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)) ?? "").split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return 0 }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }
}

struct DeviceError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
