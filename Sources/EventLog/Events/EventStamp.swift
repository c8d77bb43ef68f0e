/// Where an event stands and who made it: what tells it from every other, without what it says.
package struct EventStamp: Hashable, Sendable {
    package var position: Position
    package var hlc: HLC
    package var replica: ReplicaID
    package var counter: UInt64
}
