/// Virtual time and chance: everything that happens in a simulation is planned here, and drawn from one seed.
///
/// `@unchecked Sendable`: a world has one thread.
package final class World: @unchecked Sendable {
    package var random: SeededGenerator
    private var schedule = Schedule<() -> Void>()
    package let seed: UInt64
    /// Is told what happens.
    package var trace: ((String) -> Void)?

    package init(seed: UInt64) {
        self.seed = seed
        random = SeededGenerator(seed: seed)
    }

    package var now: UInt64 { schedule.now }

    package func after(_ delay: UInt64, _ action: @escaping () -> Void) { schedule.plan(after: delay, action) }

    /// Lets the next thing happen; false if nothing is planned, or not before a time.
    package func step(until end: UInt64 = .max) -> Bool {
        guard let time = schedule.nextTime, time <= end, let action = schedule.next() else { return false }
        action()
        return true
    }

    /// Nothing more will happen: what was planned lets go of its world.
    package func end() { schedule = Schedule() }

    package func log(_ line: @autoclosure () throws -> String) rethrows {
        if let trace { trace("\(now) \(try line())") }
    }
}
