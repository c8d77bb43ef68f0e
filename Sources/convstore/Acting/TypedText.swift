import EventLog
import Interchange

/// A text that was typed as an argument, or `-`: then it is what standard input holds, without its last line's end.
enum TypedText {
    static func read(_ argument: String) throws -> String {
        guard argument == "-" else { return argument }
        var bytes = try ImportInput.bytes(of: "-", atMost: EventLimits.eventBytesMax)
        if bytes.last == 0x0A {
            bytes.removeLast()
            if bytes.last == 0x0D { bytes.removeLast() }
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw Failure(.data, "standard input is not UTF-8; nothing was sent") }
        return text
    }
}
