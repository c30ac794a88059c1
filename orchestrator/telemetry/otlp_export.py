"""Spans in the JSON of OpenTelemetry's protocol: what a collector reads from a file, or takes over HTTP. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from harnesses.diagnostics.control_characters import inert_json
from orchestrator.codec import encode
from orchestrator.telemetry.span import Moment, Span, Value

SCOPE = "orchestrator"
"""What the spans are said to come from."""
SERVICE = "orchestrator"
BATCH = 512
"""Spans of one request; the least that every collector takes."""
_INTERNAL = 1
_ERROR = 2


def otlp_lines(spans: Iterable[Span], resource: Mapping[str, Value] | None = None) -> Iterator[str]:
    """Yield requests of at most `BATCH` spans, a line each: the format of OpenTelemetry's file exporter."""
    iterator = iter(spans)
    while some := list(islice(iterator, BATCH)):
        yield inert_json(encode(otlp_request(some, resource)))


def otlp_request(spans: Sequence[Span], resource: Mapping[str, Value] | None = None) -> dict[str, Any]:
    """Return an `ExportTraceServiceRequest`.

    Args:
        resource: what the spans are about besides; `service.name` is `orchestrator` unless it says another.
    """
    about = {"service.name": SERVICE, **(resource or {})}
    scoped = {"scope": {"name": SCOPE}, "spans": [_span(span) for span in spans]}
    return {"resourceSpans": [{"resource": {"attributes": _attributes(about)}, "scopeSpans": [scoped]}]}


def _span(span: Span) -> dict[str, Any]:
    parent = {"parentSpanId": span.parent_id} if span.parent_id else {}
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **parent,
        "name": span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(span.start_us * 1000),
        "endTimeUnixNano": str(span.end_us * 1000),
        "attributes": _attributes(span.attributes),
        "events": [_event(moment) for moment in span.moments],
        "status": {} if span.error is None else {"code": _ERROR, "message": span.error},
    }


def _event(moment: Moment) -> dict[str, Any]:
    return {
        "timeUnixNano": str(moment.time_us * 1000),
        "name": moment.name,
        "attributes": _attributes(moment.attributes),
    }


def _attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:
            return {"stringValue": value}
