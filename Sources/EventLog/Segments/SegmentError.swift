/// Why bytes are no segment that this store takes.
package struct SegmentError: Error, Hashable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// It holds more than was agreed to.
        case tooLarge
        /// Damaged or forged: no store writes such bytes.
        case malformed
    }
    package let code: Code
    package let detail: String

    package init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    package var description: String { "a segment that cannot be taken: \(detail)" }
}
