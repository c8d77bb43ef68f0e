// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"]
    .map { .enableUpcomingFeature($0) }

let package = Package(
    name: "convstore",
    platforms: [.macOS(.v15), .iOS(.v18)],  // The floor of `Mutex` and `Atomic`.
    products: [
        .library(name: "EventLog", targets: ["EventLog"]),
        .library(name: "Projections", targets: ["Projections"]),
        .library(name: "ConversationStore", targets: ["ConversationStore"]),
        .library(name: "Interchange", targets: ["Interchange"]),
        .library(name: "Replication", targets: ["Replication"]),
        .executable(name: "convstore", targets: ["convstore"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
    ],
    targets: [
        .systemLibrary(name: "CLMDB", pkgConfig: "lmdb", providers: [.apt(["liblmdb-dev"]), .brew(["lmdb"])]),
        .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"]), .brew(["zstd"])]),
        .target(
            name: "EventLog",
            dependencies: ["CLMDB", "CZstd", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: strict
        ),
        .target(
            name: "Projections",
            dependencies: ["EventLog", "CZstd", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: strict
        ),
        .target(name: "ConversationStore", dependencies: ["EventLog", "Projections"], swiftSettings: strict),
        .target(
            name: "Replication",
            dependencies: ["ConversationStore", "EventLog", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: strict
        ),
        .target(
            name: "Interchange",
            dependencies: ["EventLog", "CZstd", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "convstore",
            dependencies: ["ConversationStore", "EventLog", "Interchange", "Projections", "Replication", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            swiftSettings: strict
        ),
        .testTarget(name: "EventLogTests", dependencies: ["EventLog"], swiftSettings: strict),
        .testTarget(name: "ConversationStoreTests", dependencies: ["ConversationStore", "EventLog", "Projections"], swiftSettings: strict),
        .testTarget(name: "ReplicationTests", dependencies: ["ConversationStore", "EventLog", "Replication"], swiftSettings: strict),
        .testTarget(name: "CLITests", dependencies: ["convstore"], swiftSettings: strict),
        .target(name: "StoreTesting", dependencies: ["ConversationStore", "EventLog", "Projections", "Replication"], swiftSettings: strict),
        .executableTarget(
            name: "simulate", dependencies: ["EventLog", "StoreTesting", .product(name: "ArgumentParser", package: "swift-argument-parser")], swiftSettings: strict),
        .testTarget(name: "StoreTestingTests", dependencies: ["ConversationStore", "StoreTesting"], swiftSettings: strict),
        // A process that the tests of projections kill.
        .executableTarget(name: "TalkWriter", dependencies: ["ConversationStore", "Interchange"], path: "Tests/TalkWriter", swiftSettings: strict),
        .testTarget(
            name: "ProjectionsTests",
            dependencies: ["ConversationStore", "EventLog", "Interchange", "Projections", "StoreTesting", "TalkWriter"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "InterchangeTests",
            dependencies: ["EventLog", "Interchange", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: strict
        ),
    ],
    swiftLanguageModes: [.v6]
)
