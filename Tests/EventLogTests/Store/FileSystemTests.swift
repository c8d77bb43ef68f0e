import Testing

@testable import EventLog

#if canImport(Glibc)
    import Glibc
#endif

@Suite("File systems") struct FileSystemTests {
    @Test("those over a network are refused by name, whatever sign the type has", arguments: [(0x6969, "NFS"), (0xFF53_4D42, "CIFS"), (-0x00AC_B2BE, "CIFS")])
    func network(type: Int, name: String) throws {
        let error = #expect(throws: EventLogError.self) { try Directory.refuseNetwork("/far/away", type: type) }
        #expect(error?.code == .unsupportedFileSystem)
        #expect(error?.message.contains("/far/away") == true && error?.message.contains(name) == true)
    }

    @Test("disks of this machine are taken: ext4, btrfs, xfs, tmpfs, overlayfs", arguments: [0xEF53, 0x9123_683E, 0x5846_5342, 0x0102_1994, 0x794C_7630])
    func local(type: Int) throws { try Directory.refuseNetwork("/here", type: type) }

    #if canImport(Glibc)
        @Test("a lock file that LMDB maps has all its blocks before, also one that was copied with holes: none is looked for when the disk is full")
        func lockFile() throws {
            let directory = TemporaryDirectory()
            let path = directory.store + "/archive-lock"
            var status = stat()
            func isWhole() -> Bool { stat(path, &status) == 0 && status.st_size > 60_000 && status.st_blocks * 512 >= status.st_size }
            for size in [0, 4096, 65_664, 100_000] {
                try EventStore.open(at: directory.store).close()
                #expect(isWhole())
                try Directory.remove(path)
                let file = try File(path, O_RDWR | O_CREAT)
                try file.truncate(to: size)
                if size > 4096 { try file.allocate(0..<4096) }
                for access in [StoreOptions.Access.readOnly, .existing] {
                    #expect(!isWhole() || access == .existing)
                    let store = try EventStore.open(at: directory.store, options: StoreOptions(access: access))
                    #expect(isWhole())
                    try store.close()
                }
            }
        }
    #endif
}
