import EventLog
import Replication

/// RFC 6455, section 4.2.1: whether a request may become a socket.
struct SyncHandshake {
    static let path = "/v1/sync"

    enum Answer: Hashable {
        case upgrade
        case refuse(Refusal)
    }

    /// An ordinary HTTP status, and why, for people.
    struct Refusal: Hashable {
        var status: Int
        var reason: String
    }

    var allowedOrigins: Set<String>
    var hasRoom: Bool

    /// - Parameter headers: the values of a header, by its name in lower case.
    func answer(isGet: Bool, headers: (String) -> [String]) -> Answer {
        // Were there two, nobody could tell which of them a proxy before us has looked at.
        if !allowedOrigins.contains("*"), headers("origin").contains(where: { !allowedOrigins.contains($0) }) {
            return .refuse(Refusal(status: 403, reason: "this origin is not allowed"))
        }
        guard isGet, Self.names("websocket", in: headers("upgrade")), Self.names("upgrade", in: headers("connection")) else {
            return .refuse(Refusal(status: 426, reason: "this is a WebSocket: connect with one"))
        }
        if let refusal = rest(headers) { return .refuse(refusal) }
        return .upgrade
    }

    /// What is wrong with a request that did not become a socket. `Upgrade` was taken from it, so that no other part stumbles over it.
    func refusal(headers: (String) -> [String]) -> Refusal {
        let answer = answer(isGet: true) { name in
            switch name {
            case "upgrade" where !headers("sec-websocket-key").isEmpty: ["websocket"]
            case "connection" where !headers("sec-websocket-key").isEmpty: ["upgrade"]
            default: headers(name)
            }
        }
        // A second request of its connection, or one of HTTP/1.0: in a new one it would be right.
        guard case .refuse(let refusal) = answer else { return Refusal(status: 426, reason: "open a connection of its own for the WebSocket") }
        return refusal
    }

    private func rest(_ headers: (String) -> [String]) -> Refusal? {
        guard headers("sec-websocket-version") == ["13"] else { return Refusal(status: 426, reason: "only version 13 of WebSocket is spoken") }
        let keys = headers("sec-websocket-key")
        guard keys.count == 1, Base64.decode(keys[0])?.count == 16 else { return Refusal(status: 400, reason: "Sec-WebSocket-Key is malformed") }
        guard Self.names(WireLimits.subprotocol, in: headers("sec-websocket-protocol"), isCaseSensitive: true) else {
            return Refusal(status: 400, reason: "Sec-WebSocket-Protocol must offer \(WireLimits.subprotocol)")
        }
        guard hasRoom else { return Refusal(status: 503, reason: "no more sockets are taken now") }
        return nil
    }

    /// Whether a list of names, over any number of headers, has a name.
    private static func names(_ name: String, in values: [String], isCaseSensitive: Bool = false) -> Bool {
        values.contains { value in
            value.split(separator: ",").contains { part in
                let part = part.trimmed
                return isCaseSensitive ? part == name : part.lowercased() == name
            }
        }
    }
}

extension Substring {
    fileprivate var trimmed: Substring {
        var result = self
        while let first = result.first, first == " " || first == "\t" { result.removeFirst() }
        while let last = result.last, last == " " || last == "\t" { result.removeLast() }
        return result
    }
}
