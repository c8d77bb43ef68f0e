package import EventLog

/// How much is to happen in a simulation.
package struct SimulationOptions: Sendable {
    package var seed: UInt64
    /// What applications, people and nature do before everything is healed.
    package var operations = 200
    /// Is told what happens.
    package var trace: (@Sendable (String) -> Void)?
    /// Leaves the stores of a world that failed where they are.
    package var keepsFiles = false
    package var planted: PlantedBug?

    package init(seed: UInt64) { self.seed = seed }
}
