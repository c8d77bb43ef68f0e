import HTTPTypes
import Hummingbird
import NIOCore

/// Answers 405 where a path is there, but not for this method.
struct MethodCheck<Context: RequestContext>: RouterMiddleware {
    private let methods: [String: [HTTPRequest.Method]]

    init(_ methods: [String: [HTTPRequest.Method]]) { self.methods = methods }

    func handle(_ request: Request, context: Context, next: (Request, Context) async throws -> Response) async throws -> Response {
        guard let allowed = methods[request.uri.path], !allowed.contains(request.method) else { return try await next(request, context) }
        let names = allowed.map(\.rawValue).joined(separator: ", ")
        return Response(
            status: .methodNotAllowed, headers: [.allow: names, .contentType: "text/plain; charset=utf-8"],
            body: .init(byteBuffer: ByteBuffer(string: "only \(names)\n")))
    }
}
