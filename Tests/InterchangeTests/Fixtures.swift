import Foundation
import Interchange
import Testing

/// The files in Tests/Fixtures.
enum Fixtures {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().appending(path: "Fixtures")

    static func path(_ name: String) -> String { folder.appending(path: name).path(percentEncoded: false) }

    static func data(_ name: String) throws -> Data { try Data(contentsOf: folder.appending(path: name)) }

    /// The objects of a JSONL file.
    static func objects(_ name: String, in folder: URL = folder) throws -> [[String: Any]] {
        try Data(contentsOf: folder.appending(path: name)).split(separator: 0x0A).map {
            try #require(JSONSerialization.jsonObject(with: $0) as? [String: Any])
        }
    }
}

/// A folder that goes with the test.
final class Scratch {
    let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "interchange-tests-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    func file(_ name: String, _ content: some Sequence<UInt8>) throws -> String {
        let url = folder.appending(path: name)
        try Data(content).write(to: url)
        return url.path(percentEncoded: false)
    }
}
