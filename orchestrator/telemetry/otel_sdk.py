"""Spans for the exporters of OpenTelemetry's SDK, and its exporter over HTTP. Nothing global is touched."""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from orchestrator.errors import UsageError
from orchestrator.telemetry.otlp_export import SCOPE, SERVICE
from orchestrator.telemetry.span import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

MISSING = "traces need OpenTelemetry: expected it installed; run `pip install 'harness-orchestrator[telemetry]'`"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PATH = "/v1/traces"


def is_asked_for(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the variables of OpenTelemetry say where traces go."""
    off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none"
    return not off and any(environment.get(name) for name in ENDPOINTS)


def exporter_to(url: str | None) -> SpanExporter:
    """Return an exporter to a collector, by OTLP over HTTP.

    Args:
        url: the collector's, or its path for traces; None for what OpenTelemetry's variables say.

    Raises:
        UsageError: it is no URL, or OpenTelemetry is not installed.
    """
    endpoint = None if url is None else endpoint_of(url)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise UsageError(MISSING) from error
    # What does not arrive is said once, and counted; its own line for every try is for those who have set up logging.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    return OTLPSpanExporter(endpoint=endpoint)


def sender(exporter: SpanExporter, run: str) -> Callable[[Sequence[Span]], bool]:
    """Return what sends spans through an exporter, and says whether it has taken them.

    Raises:
        UsageError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError as error:
        raise UsageError(MISSING) from error
    resource = resource_of(run)

    def send(spans: Sequence[Span]) -> bool:
        return exporter.export([readable(span, resource) for span in spans]) is SpanExportResult.SUCCESS

    return send


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """Return a span as the SDK has it."""
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import SpanKind, Status, StatusCode

    failed = span.error is not None
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
        resource=resource,
        attributes=span.attributes,
        events=[Event(one.name, dict(one.attributes), one.time_us * 1000) for one in span.moments],
        kind=SpanKind.INTERNAL,
        instrumentation_scope=scope(),
        status=Status(StatusCode.ERROR, span.error) if failed else Status(StatusCode.UNSET),
        start_time=span.start_us * 1000,
        end_time=span.end_us * 1000,
    )


def _context(trace_id: str, span_id: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


@cache
def scope() -> Any:
    """Return what spans and numbers are said to come from."""
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    return InstrumentationScope(SCOPE)


def resource_of(run: str) -> Resource:
    """Return what the spans are about; OpenTelemetry's variables may say another name."""
    from opentelemetry.sdk.resources import Resource

    own = {"service.instance.id": run} if run else {}
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create(own if named else {**own, "service.name": SERVICE})


def endpoint_of(url: str) -> str:
    """Return where a collector takes traces; a URL without a path is that of the collector itself.

    Raises:
        UsageError: it is no URL.
    """
    wrong = UsageError(f"traces: expected the URL of a collector, such as http://127.0.0.1:4318, was {url!r:.200}")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise wrong from None
    if not usable:
        raise wrong
    return url if parts.path.strip("/") else f"{url.rstrip('/')}{_PATH}"
