/// What a simulation found that must not be.
package struct SimulationFailure: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}
