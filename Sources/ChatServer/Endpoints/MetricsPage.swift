import Hummingbird
import NIOCore
import Replication
import ReplicationWebSocket

/// `/metrics`: the server's, the hub's and the process's figures in Prometheus' text format 0.0.4.
enum MetricsPage {
    static func response(_ metrics: ServerMetrics, _ hub: HubStatistics?, _ gate: Gate, _ options: HubServerOptions) -> Response {
        var text = PrometheusText()
        text.gauge("convstore_sockets", "WebSockets open now.", Double(gate.sockets))
        let outgoing = Double(options.outgoing.bytes)
        text.gauge("convstore_sockets_outgoing_bytes", "Bytes of messages that wait to be sent: peers that read slowly, or not at all.", outgoing)
        let unfinished = options.unfinished.bytes + options.unfinishedFirst.bytes
        text.gauge("convstore_sockets_unfinished_bytes", "Bytes that have come of messages that are not whole yet.", Double(unfinished))
        if let hub { add(hub, to: &text) }
        metrics.registry.write(to: &text)
        ProcessFigures().write(to: &text)
        return Response(
            status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8", .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(string: text.text)))
    }

    private static func add(_ hub: HubStatistics, to text: inout PrometheusText) {
        text.gauge("convstore_hub_connections", "Peers of the hub now.", Double(hub.connections))
        text.counter("convstore_hub_connections_total", "Peers that came.", hub.connectionsTotal)
        text.counter("convstore_hub_messages_received_total", "Messages from peers.", hub.messagesReceived)
        text.counter("convstore_hub_bytes_received_total", "Bytes of messages from peers.", hub.bytesReceived)
        text.counter("convstore_hub_messages_sent_total", "Messages to peers.", hub.messagesSent)
        text.counter("convstore_hub_bytes_sent_total", "Bytes of messages to peers.", hub.bytesSent)
        text.counter("convstore_hub_events_sent_total", "Events sent to peers.", hub.eventsSent)
        text.counter("convstore_hub_events_accepted_total", "Pushed events that were accepted.", hub.eventsAccepted)
        text.counter("convstore_hub_events_refused_total", "Pushed events that were refused.", hub.eventsRefused)
        text.counter("convstore_hub_write_failures_total", "Writes of the store that failed: the disk is full, or fails.", hub.writeFailures)
        text.gauge("convstore_hub_store_writable", "1 if the store's last write succeeded and nothing waits for room, else 0.", hub.isWritable ? 1 : 0)
    }
}
