/// A checksum did not hold.
struct ChecksumMismatch: Error, CustomStringConvertible {
    let part: String
    var description: String { "the checksum of the \(part) does not match" }
}

/// A run that cannot be read.
struct RunError: Error, CustomStringConvertible {
    let position: Position
    let underlying: any Error
    var description: String { "the run at position \(position): \(underlying)" }
}
