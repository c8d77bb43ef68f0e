import CoreMetrics
import Dispatch
import Hummingbird
import HTTPTypes

/// What the server counts about itself, with swift-metrics.
struct ServerMetrics: Sendable {
    let registry: PrometheusRegistry
    private let openedCount: Counter
    private let messages: Counter
    private let bytes: Counter
    private let receiving: CoreMetrics.Timer

    init(registry: PrometheusRegistry = PrometheusRegistry()) {
        self.registry = registry
        openedCount = Counter(label: "convstore_sockets_opened_total", factory: registry)
        messages = Counter(label: "convstore_socket_messages_received_total", factory: registry)
        bytes = Counter(label: "convstore_socket_bytes_received_total", factory: registry)
        receiving = CoreMetrics.Timer(label: "convstore_socket_receive_seconds", factory: registry)
    }

    func opened() { openedCount.increment() }

    /// The codes are 16 bits that a peer may choose: what is not known is one more.
    func closed(_ code: UInt16?) {
        let name =
            switch code {
            case nil: "lost"
            case .some(let code) where (1000...1011).contains(code) || [4400, 4401, 4408, 4429].contains(code): "\(code)"
            default: "other"
            }
        Counter(label: "convstore_sockets_closed_total", dimensions: [("code", name)], factory: registry).increment()
    }

    func refused(status: Int) {
        Counter(label: "convstore_sockets_refused_total", dimensions: [("status", "\(status)")], factory: registry).increment()
    }

    func received(_ count: Int, _ body: () -> Void) {
        let start = DispatchTime.now().uptimeNanoseconds
        body()
        receiving.recordNanoseconds(Int64(DispatchTime.now().uptimeNanoseconds - start))
        messages.increment()
        bytes.increment(by: count)
    }

    func answered(_ status: Int) {
        Counter(label: "convstore_http_requests_total", dimensions: [("status", "\(status)")], factory: registry).increment()
    }
}

/// Counts what the router answers.
struct RequestCounting<Context: RequestContext>: RouterMiddleware {
    private let metrics: ServerMetrics

    init(_ metrics: ServerMetrics) { self.metrics = metrics }

    func handle(_ request: Request, context: Context, next: (Request, Context) async throws -> Response) async throws -> Response {
        do {
            let response = try await next(request, context)
            metrics.answered(response.status.code)
            return response
        } catch let error as HTTPError {
            metrics.answered(error.status.code)
            throw error
        }
    }
}
