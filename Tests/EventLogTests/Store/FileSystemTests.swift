import Testing

@testable import EventLog

@Suite("File systems") struct FileSystemTests {
    @Test("those over a network are refused by name, whatever sign the type has", arguments: [(0x6969, "NFS"), (0xFF53_4D42, "CIFS"), (-0x00AC_B2BE, "CIFS")])
    func network(type: Int, name: String) throws {
        let error = #expect(throws: EventLogError.self) { try Directory.refuseNetwork("/far/away", type: type) }
        #expect(error?.code == .unsupportedFileSystem)
        #expect(error?.message.contains("/far/away") == true && error?.message.contains(name) == true)
    }

    @Test("disks of this machine are taken: ext4, btrfs, xfs, tmpfs, overlayfs", arguments: [0xEF53, 0x9123_683E, 0x5846_5342, 0x0102_1994, 0x794C_7630])
    func local(type: Int) throws { try Directory.refuseNetwork("/here", type: type) }
}
