// swift-tools-version: 6.3
import PackageDescription

let lenient: [SwiftSetting] = ["ExistentialAny", "InternalImportsByDefault"].map { .enableUpcomingFeature($0) }
let strict = lenient + [.enableUpcomingFeature("MemberImportVisibility")]
// `lenient`: what uses C's structs beside NIO or Foundation. Those have C modules that declare the same, and Swift takes a struct for that module's which it
// comes upon first: which files a compiler is given together, which depends on the number of processors, would decide whether `stat().st_mode` is visible.

let package = Package(
    name: "convstore",
    platforms: [.macOS(.v15), .iOS(.v18)],  // The floor of `Mutex` and `Atomic`.
    products: [
        .library(name: "EventLog", targets: ["EventLog"]),
        .library(name: "Projections", targets: ["Projections"]),
        .library(name: "ConversationStore", targets: ["ConversationStore"]),
        .library(name: "Interchange", targets: ["Interchange"]),
        .library(name: "Replication", targets: ["Replication"]),
        .library(name: "ReplicationWebSocket", targets: ["ReplicationWebSocket"]),
        .library(name: "ChatServer", targets: ["ChatServer"]),
        .executable(name: "convstore", targets: ["convstore"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
    ],
    targets: [
        .systemLibrary(name: "CLMDB", pkgConfig: "lmdb", providers: [.apt(["liblmdb-dev"]), .brew(["lmdb"])]),
        .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"]), .brew(["zstd"])]),
        .systemLibrary(name: "CNettle", pkgConfig: "nettle", providers: [.apt(["nettle-dev"])]),
        .systemLibrary(name: "CRename"),
        .target(
            name: "EventLog",
            dependencies: [
                "CLMDB", "CRename", "CZstd", .target(name: "CNettle", condition: .when(platforms: [.linux])),
                .product(name: "Crypto", package: "swift-crypto"),
            ],
            swiftSettings: strict
        ),
        .systemLibrary(name: "CPrefetch"),
        .target(
            name: "Projections",
            dependencies: ["EventLog", "CPrefetch", "CZstd", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: strict
        ),
        .target(name: "ConversationStore", dependencies: ["EventLog", "Projections"], swiftSettings: strict),
        .target(
            name: "Replication",
            dependencies: ["ConversationStore", "EventLog"],
            swiftSettings: strict
        ),
        .target(
            name: "Interchange",
            dependencies: ["EventLog", "CZstd", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: strict
        ),
        // A hub's server, and what it alone needs.
        .target(
            name: "ChatServer",
            dependencies: [
                "ConversationStore", "EventLog", "Replication", "ReplicationWebSocket",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
                .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: lenient
        ),
        // A device's way to a hub.
        .target(
            name: "ReplicationWebSocket",
            dependencies: [
                "ConversationStore", "EventLog", "Replication",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "convstore",
            dependencies: [
                "ChatServer", "ConversationStore", "EventLog", "Interchange", "Projections", "Replication", "ReplicationWebSocket",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            swiftSettings: lenient
        ),
        .testTarget(
            name: "EventLogTests", dependencies: ["EventLog", "StoreTesting", .product(name: "Crypto", package: "swift-crypto")], swiftSettings: lenient),
        .testTarget(name: "ConversationStoreTests", dependencies: ["ConversationStore", "EventLog", "Projections"], swiftSettings: lenient),
        .testTarget(
            name: "ChatServerTests",
            dependencies: [
                "ChatServer", "ConversationStore", "EventLog", "Replication", "ReplicationWebSocket", "StoreTesting", "convstore",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            swiftSettings: lenient
        ),
        .testTarget(
            name: "ReplicationTests", dependencies: ["ConversationStore", "EventLog", "Replication", "StoreTesting"], swiftSettings: lenient),
        .testTarget(name: "CLITests", dependencies: ["convstore", .product(name: "Crypto", package: "swift-crypto")], swiftSettings: lenient),
        .target(name: "StoreTesting", dependencies: ["ConversationStore", "EventLog", "Projections", "Replication"], swiftSettings: strict),
        .executableTarget(
            name: "simulate", dependencies: ["EventLog", "StoreTesting", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            swiftSettings: strict),
        .testTarget(name: "StoreTestingTests", dependencies: ["ConversationStore", "StoreTesting"], swiftSettings: lenient),
        // A process that the tests of projections kill.
        .executableTarget(
            name: "TalkWriter", dependencies: ["ConversationStore", "Interchange", "StoreTesting"], path: "Tests/TalkWriter", swiftSettings: lenient),
        .testTarget(
            name: "ProjectionsTests",
            dependencies: ["ConversationStore", "EventLog", "Interchange", "Projections", "StoreTesting", "TalkWriter"],
            swiftSettings: lenient
        ),
        .testTarget(
            name: "InterchangeTests",
            dependencies: ["EventLog", "Interchange", "StoreTesting", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: lenient
        ),
    ],
    swiftLanguageModes: [.v6]
)
