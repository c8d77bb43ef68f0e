extension TreeWalk.Entry {
    struct Fault: Error { let text: String }

    /// This entry of the main database as a named database, if it is a sound one. Ours holds nothing else.
    func databaseRecord(lastPage: UInt64) -> Result<(name: String, tree: TreeRecord), Fault> {
        guard node.flags == PageLayout.databaseNode, node.valueBytes == TreeRecord.byteCount else {
            return .failure(Fault(text: "an entry of the main database is no database"))
        }
        let name = String(decoding: node.key, as: UTF8.self)
        guard name.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return .failure(Fault(text: "a database's name is not printable ASCII"))
        }
        let tree = TreeRecord(node.inlineValue.baseAddress!)
        guard tree.flags == 0, tree.pad == 0 else { return .failure(Fault(text: "\(name): flags \(tree.flags), pad \(tree.pad)")) }
        if let fault = tree.fault(lastPage: lastPage) { return .failure(Fault(text: "\(name): \(fault)")) }
        return .success((name, tree))
    }
}
