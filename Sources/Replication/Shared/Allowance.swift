/// So many a second and no more: for frames that cost a peer no credit.
struct Allowance: Sendable {
    private static let countMax = 10
    private var second: UInt64 = 0
    private var count = 0

    mutating func take(at now: Instant) -> Bool {
        if now.monotonicMilliseconds / 1000 != second {
            second = now.monotonicMilliseconds / 1000
            count = 0
        }
        guard count < Self.countMax else { return false }
        count += 1
        return true
    }
}
