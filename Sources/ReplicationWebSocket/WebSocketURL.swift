/// `ws://HOST[:PORT][/PATH]`, or `wss://` for TLS.
struct WebSocketURL: Hashable {
    var isSecure: Bool
    var host: String
    var port: Int
    /// With the query.
    var path: String

    init(_ text: String) throws(WebSocketError) {
        let lower = text.lowercased()
        if lower.hasPrefix("ws://") {
            isSecure = false
        } else if lower.hasPrefix("wss://") {
            isSecure = true
        } else {
            throw Self.error(text, "it does not begin with ws:// or wss://")
        }
        let rest = text.dropFirst(isSecure ? 6 : 5)
        guard text.utf8.allSatisfy({ 0x21..<0x7F ~= $0 }), !text.contains("#") else { throw Self.error(text, "a character in it is not allowed") }
        let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
        path = String(rest[end...])
        if !path.hasPrefix("/") { path = "/" + path }
        let authority = rest[..<end]
        guard !authority.contains("@") else { throw Self.error("", "names and passwords do not belong into it") }
        var portText: Substring?
        if authority.hasPrefix("[") {
            guard let close = authority.firstIndex(of: "]") else { throw Self.error(text, "its address does not end") }
            host = String(authority[authority.index(after: authority.startIndex)..<close])
            let tail = authority[authority.index(after: close)...]
            if !tail.isEmpty {
                guard tail.hasPrefix(":") else { throw Self.error(text, "its port is malformed") }
                portText = tail.dropFirst()
            }
        } else if let colon = authority.firstIndex(of: ":") {
            host = String(authority[..<colon])
            portText = authority[authority.index(after: colon)...]
        } else {
            host = String(authority)
        }
        guard !host.isEmpty else { throw Self.error(text, "it names no host") }
        port = isSecure ? 443 : 80
        if let portText {
            guard portText.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let number = Int(portText), 1...65535 ~= number else {
                throw Self.error(text, "its port is malformed")
            }
            port = number
        }
    }

    /// As the Host header has it.
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }

    var isAddress: Bool { host.contains(":") || host.utf8.allSatisfy { 0x30...0x39 ~= $0 || $0 == UInt8(ascii: ".") } }

    private static func error(_ text: String, _ why: String) -> WebSocketError {
        WebSocketError(.invalidURL, "\(text.isEmpty ? "the URL" : text) is not ws://HOST:PORT/PATH or wss://…: \(why)")
    }
}
