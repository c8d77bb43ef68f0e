import Testing

@testable import EventLog

@Suite("memory that is lent and used again") struct MemoryTests {
    @Test("a large block comes back, unless it is more than is kept; a small one does not")
    func blocks() {
        let memory = FrameMemory(bytesMax: 1 << 18)
        let first = memory.take(100_000)
        #expect(first.count >= 100_000 && memory.freeBytes == 0)
        memory.giveBack(first)
        #expect(memory.freeBytes == first.count)
        let again = memory.take(90_000)
        #expect(again.baseAddress == first.baseAddress && memory.freeBytes == 0)
        again.deallocate()
        memory.giveBack(memory.take(1000))
        #expect(memory.freeBytes == 0)
        memory.giveBack(memory.take(1 << 19))
        #expect(memory.freeBytes == 0)
    }

    @Test("what is kept is what was asked for since the last flush, and nothing once the store rests")
    func trimming() {
        let memory = FrameMemory(bytesMax: 1 << 20)
        let blocks = (0..<4).map { _ in memory.take(1 << 17) }
        for block in blocks { memory.giveBack(block) }
        memory.trim()
        #expect(memory.freeBytes == 4 << 17)
        memory.giveBack(memory.take(1 << 17))
        memory.trim()
        #expect(memory.freeBytes == 1 << 17)
        memory.trim()
        #expect(memory.freeBytes == 0)
    }

    @Test("a frame holds its bytes in memory that was used before")
    func frames() {
        let memory = FrameMemory(bytesMax: 1 << 20)
        for round in 0..<3 as Range<UInt8> {
            let bytes = [UInt8](repeating: round, count: 200_000 - Int(round))
            let frame = bytes.withUnsafeBytes { TailFrame($0, number: 1, firstPosition: 1, items: [], others: [], memory: memory) }
            #expect(frame.bytes.elementsEqual(bytes))
        }
        #expect(memory.freeBytes > 0)
    }

    private final class Object {}
    private struct Value {
        var object: Object
        var rest = (0, 0, 0, 0)
    }
    private struct Failure: Error {}

    @Test("what was lent is held just as often as before, whether the closure returns, keeps it or throws")
    func lending() {
        var object: Object? = Object()
        weak let watched = object
        var values = [Value(object: object!)]
        object = nil
        var kept: Object?
        values.withUnsafeBufferPointer { values in
            lend(values.baseAddress!) { #expect($0.object === watched) }
            #expect(throws: Failure.self) { try lend(values.baseAddress!) { _ in throw Failure() } }
            kept = lend(values.baseAddress!) { $0.object }
        }
        #expect(values[0].object === watched && watched != nil)
        values = []
        #expect(watched != nil)
        withExtendedLifetime(kept) {}
        kept = nil
        #expect(watched == nil)
    }
}
