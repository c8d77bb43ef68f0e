// swift-tools-version: 6.3
import PackageDescription

// A package of its own, so that users of convstore do not build it.
let package = Package(
    name: "crashtest",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "convstore", path: "..")],
    targets: [
        .executableTarget(
            name: "crashscenario",
            dependencies: ["ConversationStore", "EventLog", "Replication"].map { .product(name: $0, package: "convstore") },
            swiftSettings: ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"].map { .enableUpcomingFeature($0) })
    ],
    swiftLanguageModes: [.v6]
)
