import ArgumentParser
import EventLog
import Interchange
import Replication

/// Why a command ends without success: an exit code of sysexits(3), and what, where, and what to do.
struct Failure: Error {
    struct Code: Hashable {
        let rawValue: CInt
        static let usage = Code(rawValue: 64)
        static let data = Code(rawValue: 65)
        static let noInput = Code(rawValue: 66)
        static let unavailable = Code(rawValue: 69)
        static let cannotCreate = Code(rawValue: 73)
        static let inputOutput = Code(rawValue: 74)
        static let tryAgain = Code(rawValue: 75)
        static let noPermission = Code(rawValue: 77)
    }

    let code: Code
    let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// `nil` for what the argument parser says better itself.
    init?(_ error: any Error) {
        switch error {
        case let failure as Failure: self = failure
        case let error as EventLogError: self.init(Code(error.code), error.message)
        case let refusal as Refusal: self.init(refusal)
        case let error as InputError: self.init(Code(error.code), error.message)
        case let error as ReplicaError: self.init(error.code == .forked || error.code == .badPeer ? .data : .usage, error.description)
        case let error as ProofError: self.init(.data, error.description)
        case let error where String(reflecting: type(of: error)).hasPrefix("ArgumentParser."): return nil
        case let error: self.init(.inputOutput, String(describing: error))
        }
    }
}

extension Failure.Code {
    init(_ code: EventLogError.Code) {
        switch code {
        case .noSuchStore, .notAStore, .noSuchLog: self = .noInput
        case .cannotCreate: self = .cannotCreate
        case .busy: self = .tryAgain
        case .damaged, .newerFormat: self = .data
        case .unsupportedFileSystem, .closed, .readOnly, .projectionMissing: self = .unavailable
        case .invalidArgument: self = .usage
        default: self = .inputOutput
        }
    }

    init(_ code: InputError.Code) {
        switch code {
        case .noSuchFile: self = .noInput
        case .unreadable: self = .inputOutput
        default: self = .data
        }
    }
}
