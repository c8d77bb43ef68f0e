// swift-tools-version: 6.3
import PackageDescription

// Without MemberImportVisibility, as `lenient` in ../Package.swift: C's structs are used beside Foundation.
let lenient: [SwiftSetting] = ["ExistentialAny", "InternalImportsByDefault"].map { .enableUpcomingFeature($0) }

/// The name under which the library's targets know each other: SwiftPM makes it of the folder's.
let library = String(Context.packageDirectory.split(separator: "/").dropLast().last!.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "_" })

let package = Package(
    name: "convstore-benchmarks",
    platforms: [.macOS(.v15)],
    products: [.executable(name: "peers", targets: ["PeersTool"]), .executable(name: "devices", targets: ["Devices"])],
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
            swiftSettings: lenient + [.unsafeFlags(["-enforce-exclusivity=unchecked"])]
        ),
        .executableTarget(
            name: "PeersTool",
            dependencies: ["Peers", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            swiftSettings: lenient
        ),
        // A hub's devices. The hub is a process of its own, so that this target needs nothing of a server.
        .executableTarget(
            name: "Devices",
            dependencies: [
                .product(name: "ConversationStore", package: "convstore"), .product(name: "Interchange", package: "convstore"),
                .product(name: "Replication", package: "convstore"), .product(name: "ReplicationWebSocket", package: "convstore"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            // It looks into frames and opens a thousand stores without threads, which the library shows
            // to its own package only; it says that it is of that package.
            packageAccess: false,
            swiftSettings: lenient + [.unsafeFlags(["-package-name", library])]
        ),
        .executableTarget(
            name: "Append",
            dependencies: ["Peers", .product(name: "Benchmark", package: "benchmark")],
            path: "Benchmarks/Append",
            swiftSettings: lenient,
            plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]
        ),
    ],
    swiftLanguageModes: [.v6]
)
