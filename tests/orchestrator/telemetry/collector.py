"""A collector of traces on this machine, which takes what OTLP over HTTP sends it: protobuf or JSON, compressed or not."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse


@define
class Collector:
    """What was sent, and how it answers."""

    url: str = ""
    status: int = 200
    requests: list[Any] = field(factory=list[Any])
    paths: list[str] = field(factory=list[str])

    @property
    def spans(self) -> list[Any]:
        """All spans, in the order in which they came."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def take(self, path: str, body: bytes) -> None:
        of_traces = path.endswith("/v1/traces")
        request = ExportTraceServiceRequest() if of_traces else ExportMetricsServiceRequest()
        request.ParseFromString(body)
        self.paths.append(path)
        self.requests.append(request)


@contextmanager
def collecting(status: int = 200) -> Generator[Collector]:
    """Give a collector that runs in threads of its own."""
    collector = Collector(status=status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.take(self.path, body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(collector.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
