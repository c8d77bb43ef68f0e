/// `ws://HOST[:PORT][/PATH]` or `http://…`, or `wss://` and `https://` for TLS.
package struct ServerURL: Hashable, Sendable {
    package enum Scheme: String, Sendable {
        case webSocket = "ws"
        case http

        package var plain: String { rawValue }
        package var secure: String { rawValue + "s" }
    }

    package var scheme: Scheme
    package var isSecure: Bool
    package var host: String
    package var port: Int
    /// With the query.
    package var path: String

    /// - Throws: `WebSocketError` `invalidURL`.
    package init(_ text: String, _ scheme: Scheme) throws(WebSocketError) {
        func error(_ text: String, _ why: String) -> WebSocketError {
            let example = scheme == .webSocket ? "ws://HOST:PORT/PATH or wss://…" : "https://HOST/PATH"
            return WebSocketError(.invalidURL, "\(text.isEmpty ? "the URL" : text) is not \(example): \(why)")
        }
        self.scheme = scheme
        let lower = text.lowercased()
        if lower.hasPrefix(scheme.plain + "://") {
            isSecure = false
        } else if lower.hasPrefix(scheme.secure + "://") {
            isSecure = true
        } else {
            throw error(text, "it does not begin with \(scheme.plain):// or \(scheme.secure)://")
        }
        let rest = text.dropFirst((isSecure ? scheme.secure : scheme.plain).count + 3)
        guard text.utf8.allSatisfy({ 0x21..<0x7F ~= $0 }), !text.contains("#") else { throw error(text, "a character in it is not allowed") }
        let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
        path = String(rest[end...])
        if !path.hasPrefix("/") { path = "/" + path }
        let authority = rest[..<end]
        guard !authority.contains("@") else { throw error("", "names and passwords do not belong into it") }
        var portText: Substring?
        if authority.hasPrefix("[") {
            guard let close = authority.firstIndex(of: "]") else { throw error(text, "its address does not end") }
            host = String(authority[authority.index(after: authority.startIndex)..<close])
            let tail = authority[authority.index(after: close)...]
            if !tail.isEmpty {
                guard tail.hasPrefix(":") else { throw error(text, "its port is malformed") }
                portText = tail.dropFirst()
            }
        } else if let colon = authority.firstIndex(of: ":") {
            host = String(authority[..<colon])
            portText = authority[authority.index(after: colon)...]
        } else {
            host = String(authority)
        }
        guard !host.isEmpty else { throw error(text, "it names no host") }
        port = isSecure ? 443 : 80
        if let portText {
            guard portText.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let number = Int(portText), 1...65535 ~= number else {
                throw error(text, "its port is malformed")
            }
            port = number
        }
    }

    /// As the Host header has it.
    package var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }

    package var isAddress: Bool { host.contains(":") || host.utf8.allSatisfy { 0x30...0x39 ~= $0 || $0 == UInt8(ascii: ".") } }

    /// Only this machine can answer.
    package var isLoopback: Bool {
        if host.lowercased() == "localhost" || host == "::1" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}
