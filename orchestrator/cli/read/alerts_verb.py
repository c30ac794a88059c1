"""The verb `alerts`: alerts and their deliveries, from the file beside the store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from orchestrator.alerts.alert_book import Alert, Told, read_book
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, print_all
from orchestrator.text.json_text import json_line, stamp_us
from orchestrator.text.terminal_text import one_line


def alerts(*, all: bool = False, common: Common = USUAL) -> int:
    """Show alerts: those sent, and those still to be sent.

    Args:
        all: also alerts that have cleared
    """
    told = [one for one in read_book(Path(common.store_path)) if all or common.json or one.alert.cleared_us is None]
    by_alert = [(alert, [*some]) for alert, some in groupby(told, key=lambda one: one.alert)]
    if common.json:
        print_all(json_line(_fields(alert, some)) for alert, some in by_alert)
    else:
        print_all(_lines(by_alert))
    return ExitCode.OK


def _lines(by_alert: list[tuple[Alert, list[Told]]]) -> Iterator[str]:
    yield f"{'SINCE':<20} {'UNTIL':<20} {'WHAT':<15} {'HARNESS':<20} SENT"
    for alert, some in by_alert:
        heads = (_moment(alert.since_us), _moment(alert.cleared_us), alert.kind, one_line(alert.harness))
        yield f"{heads[0]:<20} {heads[1]:<20} {heads[2]:<15} {heads[3]:<20} {'; '.join(map(_word, some))}"
        yield f"    {one_line(f'{alert.what}: {alert.cause}' if alert.cause else alert.what)}"


def _moment(time_us: int | None) -> str:
    return (stamp_us(time_us) or "")[:19].replace("T", " ") if time_us else ""


def _word(told: Told) -> str:
    if not told.shown:
        return "nobody"
    if told.sent_us is not None:
        return f"{one_line(told.shown)} {_moment(told.sent_us)}"
    return f"{one_line(told.shown)} not yet" + (f", {told.tries} tries: {one_line(told.error)}" if told.error else "")


def _fields(alert: Alert, some: list[Told]) -> dict[str, Any]:
    return {
        "id": alert.id,
        "when": alert.condition,
        "kind": alert.kind,
        "harness": alert.harness or None,
        "what": alert.what,
        "cause": alert.cause,
        "since": stamp_us(alert.since_us),
        "until": stamp_us(alert.cleared_us) if alert.cleared_us else None,
        "told": [
            {
                "to": told.shown,
                "at": stamp_us(told.sent_us) if told.sent_us else None,
                "tries": told.tries,
                "error": told.error,
            }
            for told in some
            if told.shown
        ],
    }
