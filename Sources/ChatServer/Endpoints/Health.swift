import Hummingbird
import NIOCore

/// `/healthz`: the process answers. `/readyz`: what is sent to it would be stored.
enum Health {
    static func alive() -> Response { text(.ok, "alive") }

    static func readiness(_ gate: Gate, _ endpoint: any SyncEndpoint) -> Response {
        if gate.isClosed { return text(.serviceUnavailable, "shutting down") }
        return endpoint.hindrance.map { text(.serviceUnavailable, $0) } ?? text(.ok, "ready")
    }

    private static func text(_ status: HTTPResponse.Status, _ text: String) -> Response {
        Response(
            status: status, headers: [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(string: text + "\n")))
    }
}
