"""The answers of the API as a model reads them best: lists of entries, what matters most first. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from orchestrator.text.json_text import stamp


def whole(answer: Any) -> Any:
    """Return an answer as it is."""
    return answer


def harness_rows(answer: Any) -> Any:
    """Return the rows of a fleet, the worst ones first; or one harness."""
    if "rows" not in answer:
        return _row(answer)
    return [_row(row) for row in sorted(answer["rows"], key=lambda row: row["rank"])]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without what only a page needs."""
    began = row.get("began")
    rest = {name: value for name, value in row.items() if name not in ("rank", "began", "sparkline")}
    return {**rest, "step_began": None if began is None else stamp(datetime.fromtimestamp(began, UTC))}


def letters(answer: Any) -> list[dict[str, Any]]:
    """Return messages, each with whether it waits in the mailbox."""
    waiting = set(answer["waiting"])
    return [{**one, "is_waiting": one["seq"] in waiting} for one in answer["messages"]]


def newest_spans(answer: Any) -> list[dict[str, Any]]:
    """Return the spans of a timeline, the newest ones first, each with its harness."""
    spans = [{"harness": name, **span} for name, each in answer["harnesses"].items() for span in each]
    return sorted(spans, key=lambda span: span["begin"] or "", reverse=True)


def newest_first(answer: Any) -> list[Any]:
    """Return a list that begins with the oldest one in reverse."""
    return [*reversed(answer)]


def found_records(answer: Any) -> list[dict[str, Any]]:
    """Return the records that a search has found, and at their end where it goes on, if it has not looked at all."""
    before = answer["before"]
    return [*answer["found"], *([] if before is None else [{"before": before, "what": "older records are not searched yet"}])]
