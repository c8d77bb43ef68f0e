import EventLog
import FoundationEssentials
import Interchange

/// Reads the benchmark's JSONL into memory, before anything is timed.
public enum Loader {
    public static func load(_ path: String, limit: Int = .max) throws -> [Item] {
        let data = try Data(contentsOf: URL(filePath: path), options: .alwaysMapped)
        var items: [Item] = []
        try data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) throws -> Void in
            var decoder = EventLineDecoder()
            var rest = bytes[...]
            while items.count < limit, !rest.isEmpty {
                let end = rest.firstIndex(of: UInt8(ascii: "\n")) ?? rest.endIndex
                do {
                    let line = try decoder.decode(UnsafeRawBufferPointer(rebasing: rest[..<end]))
                    items.append(Item(event: line.event, milliseconds: line.at))
                } catch {
                    throw EngineError("\(path): line \(items.count + 1): \(error)")
                }
                rest = rest[min(end + 1, rest.endIndex)...]
            }
        }
        return items
    }
}
