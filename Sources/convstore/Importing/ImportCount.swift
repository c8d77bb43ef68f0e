import EventLog

/// What became of the lines of one import.
struct ImportCount {
    var accepted = 0
    var duplicates = 0
    var rejected = 0
    var byCode: [String: Int] = [:]
    /// Payloads of recorded streams that are no JSON objects.
    var skippedPayloads = 0

    var lines: Int { accepted + duplicates + rejected }

    mutating func take(_ outcome: AppendOutcome) {
        switch outcome {
        case .accepted: accepted += 1
        case .duplicate: duplicates += 1
        case .refused(let refusal): take(refusal)
        case .withdrawn, .undecided: break
        }
    }

    mutating func take(_ refusal: Refusal) {
        rejected += 1
        byCode[refusal.code.rawValue, default: 0] += 1
    }

    /// The summary that ends an import: of this run, and the store's totals after it, if there is one.
    func print(_ totals: EventStore.Statistics?, seconds: Double, asJSON: Bool) throws {
        let (conversations, messages) = (totals?.conversations ?? 0, totals?.messages ?? 0)
        let codes = byCode.sorted { $0.key < $1.key }
        if asJSON {
            var line = JSONLine()
            line.add("accepted", accepted)
            line.add("duplicates", duplicates)
            line.add("rejected", rejected)
            line.add("conversations", conversations)
            line.add("messages", messages)
            var inner = JSONLine()
            for (code, count) in codes { inner.add(code, count) }
            line.add("by_code", inner)
            line.add("seconds", seconds, decimals: 3)
            try line.print()
            // Its fields are a contract: what they do not tell is for people.
            if skippedPayloads > 0 { Terminal.complain("skipped, as no JSON objects: \(Quantity.count(skippedPayloads, "payload"))") }
            return
        }
        let rate = seconds > 0 ? Quantity.count(Int(Double(lines) / seconds)) : "0"
        var table = Table([("", .left), ("", .right), ("", .left)])
        table.add("accepted", Quantity.count(accepted), "in \(Quantity.duration(seconds)), \(rate) lines a second")
        table.add("duplicates", Quantity.count(duplicates), "")
        table.add(
            "rejected", Quantity.count(rejected), codes.map { "\($0.key) \(Quantity.count($0.value))" }.joined(separator: ", "))
        if skippedPayloads > 0 { table.add("skipped", Quantity.count(skippedPayloads), "payloads that are no JSON objects") }
        table.add("in the store", Quantity.count(conversations), "conversations, \(Quantity.count(messages)) messages")
        try table.print()
    }
}
