import HTTPTypes
import Hummingbird

/// Leaves out the body of an answer to HEAD: on a connection that goes on, a client would take it for the beginning of the next answer.
struct HeadAnswer<Context: RequestContext>: RouterMiddleware {
    func handle(_ request: Request, context: Context, next: (Request, Context) async throws -> Response) async throws -> Response {
        let response = try await next(request, context)
        return request.method == .head ? response.createHeadResponse() : response
    }
}
