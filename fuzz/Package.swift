// swift-tools-version: 6.3
import PackageDescription

// A package of its own: it is built with -sanitize=fuzzer (run.sh).
let package = Package(
    name: "fuzz",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "convstore", path: "..")],
    targets: [
        .executableTarget(
            name: "fuzz",
            dependencies: ["EventLog", "Interchange", "Replication"].map { .product(name: $0, package: "convstore") },
            swiftSettings: ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"].map { .enableUpcomingFeature($0) })
    ],
    swiftLanguageModes: [.v6]
)
