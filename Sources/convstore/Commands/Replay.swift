import ArgumentParser
import EventLog
import Interchange

struct Replay: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Plays events back in the order of their commits, at once or at the pace at which they were recorded.")

    @OptionGroup var store: StoreOption
    @Option(help: ArgumentHelp("Only this conversation's; the beginning of its id will do.", valueName: "id"))
    var conversation: String?
    @Option(help: ArgumentHelp("The first position.", valueName: "position"))
    var from: UInt64 = 1
    @Option(help: ArgumentHelp("The last position.", valueName: "position"))
    var to: UInt64 = .max
    @Option(help: ArgumentHelp("1: at the recorded pace, 2: twice as fast …, 0: at once.", valueName: "factor"))
    var speed: Double = 0
    @Flag(help: "Print each event as a JSON object.")
    var json = false

    func validate() throws {
        guard speed.isFinite, speed >= 0 else { throw ValidationError("--speed is 0 or more: 0 at once, 1 at the recorded pace.") }
        guard from <= to else { throw ValidationError("--from is behind --to.") }
    }

    func run() throws {
        try store.readParts { store, beside in
            let log = try conversation.resolvedLog(in: store, beside)
            let encoder = EventLineEncoder(writesUnknown: true)
            var pace = Pace(speed: speed)
            var transcript = Transcript()
            var progress = ProgressBar("Replaying", isOn: !Terminal.isOutput && speed == 0)
            let last = min(to, store.lastPosition)
            var count = 0
            try store.replay(from: from, through: to, log: log) { event in
                try pace.wait(for: event)
                if json {
                    try StandardOutput.shared.write { buffer in _ = encoder.append(event, to: &buffer) }
                } else {
                    try transcript.write(event)
                }
                if speed > 0 { try StandardOutput.shared.flush() }
                count += 1
                if count & 1023 == 0 {
                    progress.update(done: Double(event.position) - Double(from), total: Double(last) - Double(from), count: count, "events")
                }
                return true
            }
            progress.clear()
            if !json { try transcript.finish() }
            beside.complain(log)
        }
    }
}
