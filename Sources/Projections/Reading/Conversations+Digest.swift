internal import Crypto
internal import EventLog

extension Conversations {
    /// SHA-256 of the whole state, row by row in the order of keys: of what rows say, not of how they are cut into pages or compressed.
    package func digest() throws -> [UInt8] {
        var hash = SHA256()
        func add(_ write: (inout RowWriter) -> Void) {
            var writer = RowWriter(ByteBuffer(capacity: 1024))
            write(&writer)
            withUnsafeBytes(of: UInt64(writer.out.count).littleEndian) { hash.update(bufferPointer: $0) }
            hash.update(bufferPointer: writer.out.bytes)
        }
        try rows.forEach { id, row in
            // Where pages end is no part of what they say.
            let summary = row.summary
            add {
                $0.put(id)
                summary.encode(into: &$0)
            }
            try withUnsafePointer(to: row) { row in
                for number in 0..<row.pointee.pages {
                    try readPage(number, id, row) { page in
                        try page.forEach { message in
                            let message = try message.row()
                            add { message.encode(into: &$0, after: 0, time: 0) }
                            return true
                        }
                    }
                }
            }
            return true
        }
        try members.forEach { key, member in
            if member.isEmpty { return true }
            add {
                $0.put(key.user)
                $0.put(key.conversation)
                member.encode(into: &$0)
            }
            return true
        }
        try streams.forEach { key, stream in
            add {
                $0.put(key.conversation)
                $0.put(key.number)
                stream.encode(into: &$0)
            }
            return true
        }
        return Array(hash.finalize())
    }
}
