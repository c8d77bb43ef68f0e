import ArgumentParser

enum ImportFormat: String, ExpressibleByArgument, CaseIterable {
    case events, dialogue, stream
}

enum DurabilityOption: String, ExpressibleByArgument, CaseIterable {
    case full, relaxed
}
