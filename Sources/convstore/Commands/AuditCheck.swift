import ArgumentParser
import EventLog

struct AuditCheck: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Checks a proof file, or a signed checkpoint, without any store.",
        discussion: "Exits with 65 if it does not hold.")

    @Option(help: ArgumentHelp("The key that must have signed: what `audit checkpoint --key` prints.", valueName: "key"))
    var key: String?
    @Flag(help: "Print one JSON object.")
    var json = false
    @Argument(help: ArgumentHelp("The proof's or the checkpoint's file; - is standard input.", valueName: "file"))
    var file: String

    func run() throws {
        let bytes = try ImportInput.bytes(of: file, atMost: ProofFile.bytesMax)
        let expected = try key.map { text in
            do throws(ProofError) { return try VerifierKey(text) } catch { throw Failure(.usage, "--key: \(error.message)") }
        }
        let finding: String
        do { finding = try check(bytes, expected) } catch let error as ProofError {
            if json { try report(false, error.description) }
            throw Failure(.data, "\(file): \(error)")
        }
        if json { return try report(true, finding) }
        try StandardOutput.shared.writeLine(Style.green("✓ ") + Sanitizer.harmless(finding, keepsNewlines: true))
    }

    private func check(_ bytes: [UInt8], _ expected: VerifierKey?) throws -> String {
        if bytes.first(where: { !(0x09...0x0D ~= $0 || $0 == 0x20) }) == UInt8(ascii: "{") {
            return try ProofFile(json: bytes).check(expectedKey: expected).description
        }
        guard let expected else { throw Failure(.usage, "\(file) is a signed checkpoint; give the key that must have signed it with --key") }
        let checkpoint = try Checkpoint.open(String(decoding: bytes, as: UTF8.self), key: expected)
        return "signed by \(expected.name): \(checkpoint.origin), \(checkpoint.size) heads, root \(checkpoint.root.base64)"
    }

    private func report(_ isSound: Bool, _ finding: String) throws {
        var line = JSONLine()
        line.add("ok", isSound)
        line.add("finding", finding)
        try line.print()
    }
}
