"""Spans for OpenTelemetry: as OTLP JSON, which a collector reads from a file or receives over HTTP; and for exporters of its
SDK, without touching its global state.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harnesses.diagnostics.control_characters import inert_json
from harnesses.diagnostics.extras import install_command
from orchestrator.codec import encode_private
from orchestrator.errors import UsageError
from orchestrator.telemetry.span import Moment, Span, Value

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter


SCOPE = "orchestrator"
"""Name of the instrumentation scope."""
SERVICE = "orchestrator"
BATCH = 512
"""Spans per request; the smallest size that every collector accepts."""
_INTERNAL, _CLIENT = 1, 3
_ERROR = 2
_SPAN = (
    '{"traceId":"%s","spanId":"%s",%s"name":%s,"kind":%s,"startTimeUnixNano":"%s","endTimeUnixNano":"%s",'
    '"attributes":[%s],"events":[%s],"status":{%s}}'
)


def otlp_lines(spans: Iterable[Span]) -> Iterator[str]:
    """Yield requests of at most `BATCH` spans, one per line: the format of OpenTelemetry's file exporter."""
    return request_lines(map(span_text, spans))


def request_lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield requests of at most `BATCH` spans, of their texts."""
    iterator = iter(texts)
    resource = _attributes({"service.name": SERVICE})
    head = (
        f'{{"resourceSpans":[{{"resource":{{"attributes":[{resource}]}},"scopeSpans":[{{"scope":{{"name":"{SCOPE}"}},"spans":['
    )
    while some := list(islice(iterator, BATCH)):
        yield f"{head}{','.join(some)}]}}]}}]}}"


def span_text(span: Span) -> str:
    """Return a span as JSON. It is put together as text: to build its objects first takes three times as long."""
    parent = f'"parentSpanId":"{span.parent_id}",' if span.parent_id else ""
    status = "" if span.error is None else f'"code":{_ERROR},"message":{encode_private(span.error)}'
    kind = _CLIENT if span.is_client else _INTERNAL
    times = span.start_us * 1000, span.end_us * 1000
    about = _attributes(span.attributes), ",".join(map(_event, span.moments)), status
    return _inert(_SPAN % (span.trace_id, span.span_id, parent, encode_private(span.name), kind, *times, *about))


def span_form(span: Span, more: str) -> str:
    """Return a format for spans like this one, of their ids, starts and ends in nanoseconds, and further attributes.

    Args:
        span: with an attribute at least. Its own id and times are not used.
        more: format of the further attributes, each with a comma before it.
    """
    parent = f'"parentSpanId":"{span.parent_id}",' if span.parent_id else ""
    fixed = (span.trace_id, parent, encode_private(span.name), _attributes(span.attributes))
    trace_id, parent, name, attributes = (_inert(one).replace("%", "%%") for one in fixed)
    return _SPAN % (trace_id, "%s", parent, name, _INTERNAL, "%d", "%d", f"{attributes}{more}", "", "")


def more_text(attributes: Mapping[str, Value]) -> str:
    """Return the text of further attributes."""
    return _inert("".join([f",{_key(key)}{_value(value)}}}" for key, value in attributes.items()]))


def _inert(text: str) -> str:
    """Return what `inert_json` returns of JSON that an encoder has written: in it, other control characters are escaped."""
    return text if text.isascii() and "\x7f" not in text else inert_json(text)


def _event(moment: Moment) -> str:
    name = encode_private(moment.name)
    return f'{{"timeUnixNano":"{moment.time_us * 1000}","name":{name},"attributes":[{_attributes(moment.attributes)}]}}'


def _attributes(values: Mapping[str, Value]) -> str:
    return ",".join([f"{_key(key)}{_value(value)}}}" for key, value in values.items()])


@lru_cache(1000)
def _key(key: str) -> str:
    return f'{{"key":{encode_private(key)},"value":'


def _value(value: Value) -> str:
    match value:
        case str():
            return _string(value)
        case bool():
            return f'{{"boolValue":{encode_private(value)}}}'
        case int():
            return f'{{"intValue":"{value}"}}'
        case float():
            return f'{{"doubleValue":{encode_private(value)}}}'
        case _:
            return f'{{"arrayValue":{{"values":[{",".join(map(_value, value))}]}}}}'


@lru_cache(1000)
def _string(value: str) -> str:
    return f'{{"stringValue":{encode_private(value)}}}'


def missing() -> UsageError:
    """Return the error for a missing OpenTelemetry."""
    return UsageError(f"traces need OpenTelemetry: expected it installed; run `{install_command('telemetry')}`")


ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PATH = "/v1/traces"


def is_asked_for(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether OpenTelemetry's environment variables configure a destination for traces."""
    off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none"
    return not off and any(environment.get(name) for name in ENDPOINTS)


def exporter_to(url: str | None) -> SpanExporter:
    """Return an exporter that sends OTLP over HTTP to a collector.

    Args:
        url: the collector's URL, or its path for traces; None for OpenTelemetry's environment variables.

    Raises:
        UsageError: it is not a URL, or OpenTelemetry is not installed.
    """
    endpoint = None if url is None else endpoint_of(url)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise missing() from error
    # A failure is printed once and counted; the exporter's own message for every try is left to the logging configuration.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    return OTLPSpanExporter(endpoint=endpoint)


def sender(exporter: SpanExporter, run: str) -> Callable[[Sequence[Span]], bool]:
    """Return a function that sends spans through an exporter, and returns whether they were accepted.

    Raises:
        UsageError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError as error:
        raise missing() from error
    resource = resource_of(run)

    def send(spans: Sequence[Span]) -> bool:
        return exporter.export([readable(span, resource) for span in spans]) is SpanExportResult.SUCCESS

    return send


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """Return a span as the SDK represents it."""
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
        kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
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
    """Return the instrumentation scope of spans and metrics."""
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    return InstrumentationScope(SCOPE)


def resource_of(run: str) -> Resource:
    """Return the resource of the spans; OpenTelemetry's environment variables can override its name."""
    from opentelemetry.sdk.resources import Resource

    own = {"service.instance.id": run} if run else {}
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create(own if named else {**own, "service.name": SERVICE})


def endpoint_of(url: str) -> str:
    """Return the traces endpoint of a collector; a URL without a path is that of the collector itself.

    Raises:
        UsageError: it is not a URL.
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
