"""The verbs `limits` and `limits set`: the time limits of a running harness, and an operator's change of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from math import isfinite, nan
from typing import Annotated, Any

from cyclopts import App, Parameter

from orchestrator.child_spec import check_name
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.operate.approval_verbs import By
from orchestrator.cli.operate.live_verbs import find_known, not_running
from orchestrator.cli.verb_options import USUAL, Common, Name, Words, print_all
from orchestrator.codec import encode
from orchestrator.control.control_client import LIMITS, order
from orchestrator.errors import UsageError
from orchestrator.operating.store_writing import user_name
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import json_line

_NO_LIMIT = "none"
_NAMES = ("step_timeout_s", "deadline_s", "period_s")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_WANTED = "expected seconds above 0 or a time as 90s, 5m, 2h or 1d, or none for no limit"

limits = App(name="limits", help="Show the time limits of a running harness.")


@limits.default
def default(name: Name, /, *, common: Common = USUAL) -> int:
    """Show the time limits of a running harness.

    They are that of a step, that of the whole, and the period of its ticker.

    Args:
        name: the name of the harness
    """
    return _give(common, name, {}, "", "")


@limits.command(name="set")
def set_time_limits(
    name: Name,
    limit: Annotated[Words, Parameter(metavar="WHAT=TIME")],
    /,
    *more: Annotated[Words, Parameter(metavar="WHAT=TIME")],
    by: By = None,
    reason: Words = "",
    common: Common = USUAL,
) -> int:
    """Set time limits of a running harness.

    WHAT is step_timeout_s, deadline_s or period_s, as in a run file; TIME is in seconds, or has a unit, as 5m, and `none` is
    no limit. It takes effect at once: a longer limit saves the step in progress, a shorter one ends the step when it has
    already taken longer. deadline_s counts from the start of the harness in this program. period_s is that of a harness with
    one ticker, `every(…)`, such as a trading harness: the next tick is due that long after the last one.

    Of a harness that has ended it takes effect with `orchestrator start NAME`, as long as its program runs.

    It holds over restarts, of the program too, until the program or the run file declares another value than it does now.

    Example:
        orchestrator limits set eurusd period_s=5m step_timeout_s=30 --reason "the venue is slow today"

    Args:
        name: the name of the harness
        limit: a limit
        more: further limits
        by: who sets it (default: the user who gives the command)
        reason: why; kept with it
    """
    who = user_name() if by is None else by
    return _give(common, name, dict(map(_limit, (limit, *more))), who, reason)


def _limit(text: str) -> tuple[str, float | None]:
    what, equals, amount = text.partition("=")
    what = what if what.endswith("_s") else f"{what}_s"
    if not equals or what not in _NAMES:
        raise UsageError(
            f"limits set: expected {', '.join(_NAMES[:-1])} or {_NAMES[-1]} with a time, as period_s=5m, got {text!r:.100}; "
            "amounts are set by `orchestrator budgets set`, all else in the run file, then `orchestrator restart NAME`"
        )
    if amount == _NO_LIMIT:
        return what, None
    unit = _UNITS.get(amount[-1:])
    try:
        seconds = float(amount if unit is None else amount[:-1]) * (unit or 1.0)
    except ValueError:
        seconds = nan
    if not isfinite(seconds):
        raise UsageError(f"limits set: {what}: {_WANTED}, got {amount!r:.100}")
    return what, seconds


def _give(common: Common, name: str, wanted: Mapping[str, float | None], by: str, reason: str) -> int:
    check_name(name)
    with closing(SqliteReader(common.store_path)) as reader:
        path, record = reader.path, find_known(reader, name)
    said = encode({"limits": dict(wanted), "by": by, "reason": reason})
    reply = order(path, name, LIMITS, body=said.encode(), by=by or user_name())
    if reply is None or reply.status == 404:
        raise not_running("set limits", common.store_path, record, reply)
    if reply.status not in (200, 202):
        raise UsageError(str(reply.fields.get("error") or reply.text))
    if common.json:
        print_all([json_line(reply.fields)])
    elif not wanted:
        print_all(_lines(reply.fields["limits"]))
    if wanted:
        in_force = ", ".join(f"{what} {_shown(reply.fields['limits'].get(what))}" for what in wanted)
        streams.say(f"{one_line(name)} has {'' if reply.fields.get('changed') else 'already '}{in_force}")
    return ExitCode.OK


def _lines(in_force: Mapping[str, Any]) -> list[str]:
    return [f"{what:15} {_shown(in_force.get(what))}" for what in _NAMES]


def _shown(seconds: Any) -> str:
    return _NO_LIMIT if seconds is None else f"{seconds:g} s"
