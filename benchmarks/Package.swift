// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"]
    .map { .enableUpcomingFeature($0) }

let package = Package(
    name: "convstore-benchmarks",
    platforms: [.macOS(.v15)],
    products: [.executable(name: "peers", targets: ["PeersTool"])],
    dependencies: [
        .package(name: "convstore", path: ".."),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
    ],
    targets: [
        .systemLibrary(name: "CRocksDB", providers: [.apt(["librocksdb-dev"]), .brew(["rocksdb"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"]), .brew(["sqlite"])]),
        .systemLibrary(name: "CLMDBPeer", pkgConfig: "lmdb", providers: [.apt(["liblmdb-dev"]), .brew(["lmdb"])]),
        .target(
            name: "Peers",
            dependencies: [
                "CRocksDB", "CSQLite", "CLMDBPeer", .product(name: "ConversationStore", package: "convstore"),
                .product(name: "EventLog", package: "convstore"), .product(name: "Projections", package: "convstore"),
                .product(name: "Interchange", package: "convstore"),
            ],
            // The peers shall not pay for checks of our thin wrappers around them.
            swiftSettings: strict + [.unsafeFlags(["-enforce-exclusivity=unchecked"])]
        ),
        .executableTarget(
            name: "PeersTool",
            dependencies: ["Peers", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "Append",
            dependencies: ["Peers", .product(name: "Benchmark", package: "benchmark")],
            path: "Benchmarks/Append",
            swiftSettings: strict,
            plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]
        ),
    ],
    swiftLanguageModes: [.v6]
)
