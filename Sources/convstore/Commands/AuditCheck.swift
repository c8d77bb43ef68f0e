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
        } catch is NeitherOfThem {
            if json { try report(false, "neither a proof nor a signed checkpoint") }
            throw Failure(.data, "\(file) is no proof and no signed checkpoint")
        }
        if json { return try report(true, finding) }
        try StandardOutput.shared.writeLine(Style.green("✓ ") + Sanitizer.harmless(finding, keepsNewlines: true))
    }

    private struct NeitherOfThem: Error {}

    private func check(_ bytes: [UInt8], _ expected: VerifierKey?) throws -> String {
        if bytes.first(where: { !(0x09...0x0D ~= $0 || $0 == 0x20) }) == UInt8(ascii: "{") {
            return try ProofFile(json: bytes).check(expectedKey: expected).description
        }
        let text = String(decoding: bytes, as: UTF8.self)
        // How a note's signatures begin.
        guard text.split(separator: "\n").contains(where: { $0.hasPrefix("\u{2014} ") }) else { throw NeitherOfThem() }
        guard let expected else { throw Failure(.usage, "\(file) is a signed checkpoint; give the key that must have signed it with --key") }
        let checkpoint = try Checkpoint.open(text, key: expected)
        return "signed by \(expected.name): \(checkpoint.origin), \(checkpoint.size) heads, root \(checkpoint.root.base64)"
    }

    private func report(_ isSound: Bool, _ finding: String) throws {
        var line = JSONLine()
        line.add("ok", isSound)
        line.add("finding", finding)
        try line.print()
    }
}
