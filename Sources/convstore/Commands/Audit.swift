import ArgumentParser

struct Audit: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Proves what a store holds, and checks such proofs without it.",
        subcommands: [AuditHead.self, AuditCheckpoint.self, AuditProve.self, AuditCheck.self])
}
