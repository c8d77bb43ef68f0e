import Testing

@testable import EventLog

@Suite("Hybrid logical clock") struct HLCTests {
    @Test("It takes the wall clock, or its own successor; the last value, which a copied log may bring, stays", arguments: [0, 5, 1 << 47] as [UInt64])
    func next(_ wall: UInt64) {
        #expect(HLC(milliseconds: 4, counter: 7).next(wallMilliseconds: wall) == (wall > 4 ? HLC(milliseconds: wall) : HLC(milliseconds: 4, counter: 8)))
        #expect(HLC(rawValue: .max).next(wallMilliseconds: wall) == HLC(rawValue: .max))
    }
}
