import ArgumentParser
import EventLog
import Glibc
import Replication

@main
struct Convstore: ParsableCommand {
    static let version = "0.2.0"
    private static let parts =
        "format \(EventLogVersions.format), protocol \(WireLimits.versions.upperBound), LMDB \(EventLogVersions.lmdb), zstd \(EventLogVersions.zstd)"

    static let configuration = CommandConfiguration(
        commandName: "convstore",
        abstract: "Keeps conversations: durably, small, in order, and provably unaltered.",
        discussion: """
            Exit codes: 0 done, 64 wrong usage, 65 bad data, 66 no such input or store, 69 unavailable, 73 cannot create, \
            74 input or output failed, 75 busy: try again, 77 not let in by the hub.
            """,
        version: "convstore \(version) (\(parts))",
        groupedSubcommands: [
            CommandGroup(
                name: "Chatting",
                subcommands: [
                    New.self, Send.self, Read.self, Edit.self, Delete.self, React.self, Join.self, Leave.self, Record.self, Interrupt.self,
                ]),
            CommandGroup(name: "Reading", subcommands: [Lobby.self, Timeline.self, Watch.self, Window.self, Replay.self, Conversations.self]),
            CommandGroup(name: "Syncing", subcommands: [Serve.self, Sync.self, Follow.self, Outbox.self]),
            CommandGroup(name: "Moving", subcommands: [Import.self, Export.self, Copy.self]),
            CommandGroup(
                name: "Operating",
                subcommands: [Stats.self, Verify.self, Audit.self, Rebuild.self, Compact.self, Erase.self, Bench.self]),
        ]
    )

    static func main() {
        // A reader that goes away ends us quietly, through the failing write.
        signal(SIGPIPE, SIG_IGN)
        Terminal.occupyStandardDescriptors()
        do {
            try refuseForeignBytes()
            try refuseDashes(CommandLine.arguments.dropFirst())
            var command = try parseAsRoot()
            try command.run()
            try StandardOutput.shared.flush()
        } catch is StandardOutput.ReaderIsGone {
            Glibc.exit(0)
        } catch is StandardOutput.IsTold {
            Signals.die(of: Signals.pending() ?? SIGTERM)
        } catch let error as Interruption.Told {
            Signals.die(of: error.signal)
        } catch {
            Glibc.exit(end(with: error))
        }
    }

    /// Bytes that are no UTF-8 would be read as U+FFFD, and that be sent; users and paths that differ in them alone would be the same.
    private static func refuseForeignBytes() throws {
        for place in CommandLine.arguments.indices {
            guard let bytes = CommandLine.unsafeArgv[place], String(validatingCString: bytes) == nil else { continue }
            throw Failure(.usage, "argument \(place), \"\(String(cString: bytes))\", is not UTF-8")
        }
    }

    /// A text that begins with `-` would be read as options, letter by letter: one with an h in it as a call for help, that does nothing and exits with 0.
    private static func refuseDashes(_ arguments: some Sequence<String>) throws {
        for argument in arguments.prefix(while: { $0 != "--" }) where argument.utf8.first == UInt8(ascii: "-") && argument != "-" && argument != "-h" {
            if argument.utf8.dropFirst().first == UInt8(ascii: "-") { continue }
            throw Failure(.usage, "\"\(argument)\" begins with -, as options do: put a text behind the options and a --, and an option's value behind its =")
        }
    }

    /// Says what went wrong and answers the exit code.
    private static func end(with error: any Error) -> CInt {
        if let failure = Failure(error) {
            // What was put out before it stands.
            try? StandardOutput.shared.flush()
            if !failure.message.isEmpty { Terminal.complain(failure.message) }
            return failure.code.rawValue
        }
        let code = exitCode(for: error)
        let message = fullMessage(for: error)
        if code.isSuccess {
            StandardOutput.shared.write(message + "\n")
            do { try StandardOutput.shared.flush() } catch is StandardOutput.ReaderIsGone {} catch {
                guard let failure = Failure(error) else { return code.rawValue }
                Terminal.complain(failure.message)
                return failure.code.rawValue
            }
        } else {
            Terminal.complain(message.hasPrefix("Error: ") ? String(message.dropFirst(7)) : message)
        }
        return code.rawValue
    }
}
