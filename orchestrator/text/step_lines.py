"""A step as one readable line. Pure.

Steps of the ready-made harnesses are recognised by the fields of their inputs and outputs; every other step is shown as its
input and its output. What agents and markets wrote is inert.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from orchestrator.records import StepRecord
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import brief

_WIDEST = 200
"""Characters of what a step did."""
_MOST = 3
"""Trades of a step that are named one by one."""
_TRADING = frozenset({"equity", "cash", "positions", "fills", "placed", "refused", "risk"})
_FEATURE = frozenset({"feature_id", "kind", "turn"})
_PIPELINE = frozenset({"kind", "task", "attempt"})
_PAST = {"buy": "bought", "sell": "sold"}


def step_line(record: StepRecord) -> str:
    """Return a step as a line: number, time, attempt, what it did, and what changed in the state."""
    said = describe(record.input, record.output)
    what = said or f"{brief(record.input, 60)} → {brief(record.output, 100)}"
    delta = record.state_delta
    changed = f"  [{one_line(', '.join(delta.modified), 60)}]" if delta.modified and not said else ""
    summary = one_line(delta.summary, 100) if delta.summary else ""
    more = f"  {summary}" if summary and summary.removeprefix("! ") not in what else ""
    return f"{record.step_number:>7}  {record.timestamp:%Y-%m-%d %H:%M:%S}  {record.attempt:>3}  {what}{changed}{more}"


def output_line(record: StepRecord, width: int) -> str:
    """Return what a step came to, without its input, on one line of at most `width` characters."""
    return one_line(describe(record.input, record.output) or brief(record.output, width), width)


def describe(input: object, output: object) -> str:
    """Return what a step of a ready-made harness did; empty for any other step."""
    given, made = _fields(input), _fields(output)
    if made.keys() >= _TRADING:
        parts = _trading(made)
    elif given.keys() >= _FEATURE and "status" in made:
        parts = _feature(given, made)
    elif frozenset(given) == _PIPELINE and "status" in made:
        parts = _pipeline(given, made)
    else:
        return ""
    return one_line("; ".join(filter(None, parts)), _WIDEST)


def drawdown_of(output: object) -> Decimal | None:
    """Return how far the equity of a trading harness is below its highest after a step, 0 to 1; None for any other step."""
    made = _fields(output)
    return _decimal(made.get("drawdown")) if made.keys() >= _TRADING else None


def _trading(made: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was traded or decided, then equity, drawdown and risk."""
    acts = [
        *(_trade(_PAST.get(str(fill.get("side")), "traded"), fill) for fill in _each(made, "fills", "fill")),
        *(f"refused {_order(one)}: {_reason(one)}" for one in _each(made, "refused")),
        *(_cancelled(one) for one in _each(made, "cancelled")),
        *(f"expired {one.get('symbol')}: {_reason(one)}" for one in _each(made, "reports") if one.get("status") == "expired"),
        *(f"order {one.get('do')}{_by(one)}" for one in _each(made, "commands")),
    ]
    if not acts:
        acts = [f"placed {_order(one)}" for one in _each(made, "placed")]
    more = f" and {len(acts) - _MOST} more" if len(acts) > _MOST else ""
    yield ", ".join(acts[:_MOST]) + more if acts else "no trade"
    fall = _decimal(made.get("drawdown"))
    below = f" ({fall:.1%} below its highest)" if fall else ""
    yield f"equity {_money(made.get('equity'))}{below}"
    why = f" ({made['why']})" if made.get("why") else ""
    yield f"risk {made.get('risk')}{why}"
    yield f"kill switch: {made['latched']}" if made.get("latched") else ""


def _trade(verb: str, fill: Mapping[str, Any]) -> str:
    return f"{verb} {_number(fill.get('units'))} {fill.get('symbol')} at {_number(fill.get('price'))}"


def _order(one: Mapping[str, Any]) -> str:
    order = _fields(one.get("order")) or one
    order = _fields(order.get("order")) or order
    return f"{order.get('side', 'order')} {_number(order.get('units'))} {order.get('symbol', '')}".rstrip()


def _cancelled(one: Mapping[str, Any]) -> str:
    if refused := one.get("refused"):
        return f"refused to cancel {one.get('symbol') or one.get('client_id')}: {refused}"
    return f"cancelled {one.get('symbol')}: {one.get('reason')}"


def _reason(one: Mapping[str, Any]) -> str:
    return str(one.get("reason") or one.get("why") or "no reason given")


def _by(one: Mapping[str, Any]) -> str:
    return f" refused: {one['refused']}" if one.get("refused") else f" by the {one.get('source', 'operator')}"


def _feature(given: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
    """Yield which feature was worked and what came of it, then the verdict on it."""
    feature, kind = given.get("feature_id"), str(given["kind"]).replace("_", " ")
    what = f"try {given['turn']}" if kind == "turn" else kind
    yield f"{f'feature {feature}, ' if feature else ''}{what}: {str(made['status']).replace('_', ' ')}"
    verdict, note = _fields(made.get("verdict")), str(made.get("note") or "")
    if verdict:
        yield f"{'accepted' if verdict.get('passed') else 'rejected'} by {verdict.get('validator')}: {verdict.get('evidence')}"
        yield note.partition("; ")[2]  # before it, the note repeats the verdict
    else:
        yield note.removeprefix(f"feature {feature}: ")


def _pipeline(given: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
    """Yield which task was worked, in which attempt, and what came of it."""
    kind = str(given["kind"]).replace("_", " ")
    task = f"task {given['task']}, " if given["task"] else ""
    attempt = f", attempt {given['attempt']}" if given["attempt"] else ""
    yield f"{task}{kind}{attempt}: {str(made['status']).replace('_', ' ')}"
    yield str(made.get("note") or "")


def _fields(value: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _each(made: Mapping[str, Any], name: str, inner: str = "") -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a list; of each, what is in its field `inner`."""
    found = made.get(name)
    for one in cast(Iterable[object], found) if isinstance(found, list) else ():
        fields = _fields(one)
        yield (_fields(fields.get(inner)) or fields) if inner else fields


def _decimal(value: object) -> Decimal:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return Decimal(0)
    return number if number.is_finite() else Decimal(0)


def _number(value: object) -> str:
    """Return a number without the zeros at its end."""
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text.lower() else text


def _money(value: object) -> str:
    number = _decimal(value)
    return f"{number:,.2f}" if number else str(value)
