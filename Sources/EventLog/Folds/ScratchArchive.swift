#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A file for rows that are needed for a while only, in the directory that TMPDIR names.
final class ScratchArchive {
    private let directory: String
    private let environment: LMDBEnvironment

    init() throws {
        let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(base)/convstore-scratch-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else {
            throw EventLogError(.cannotCreate, "\(base): no scratch directory can be made there: \(String(cString: strerror(errno))); set TMPDIR")
        }
        directory = String(cString: made)
        do {
            environment = try LMDBEnvironment(path: directory + "/rows", isReadOnly: false, mapBytes: 64 << 20, mapBytesMax: Int.max / 2, isScratch: true)
        } catch {
            Directory.removeTree(directory)
            throw Archive.typed(error, directory)
        }
    }

    func table(_ name: String) throws -> FoldTable {
        do {
            guard let table = try environment.tables([name])[0] else { throw Archive.damaged(directory, "a table cannot be made") }
            return FoldTable(environment: environment, table: table, name: name)
        } catch let error as LMDBError {
            throw Archive.typed(error, directory)
        }
    }

    func write(_ body: (inout WriteTransaction) throws -> Void) throws {
        do {
            try environment.write(body)
        } catch let error as LMDBError {
            throw Archive.typed(error, directory)
        }
    }

    func remove() {
        environment.close()
        Directory.removeTree(directory)
    }
}
