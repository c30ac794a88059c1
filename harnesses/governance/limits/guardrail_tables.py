"""Guardrails read from tables, of a run file or of a program. Pure.

The laws: nothing is guessed or let pass: an unknown name, a word for a number, `"true"` for true are errors, and all of them
are told at once, in one line; and of what two tables name, such as those of all harnesses and of one, the tighter holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any, cast

from attrs import fields

from harnesses.governance.errors import GuardrailError
from harnesses.governance.limits.guardrails import MONEY_LIMITS, Guardrails, NoProgress, shown

_DECIMALS = frozenset({"max_cost"}) | MONEY_LIMITS


def read_guardrails(table: object) -> Guardrails:
    """Return the guardrails that a table names; the others have their defaults. Strict: nothing is guessed or let pass.

    Amounts may be text, so that nothing is rounded: `max_cost = "5.00"`.

    Raises:
        GuardrailError: in one line, with everything that is wrong.
    """
    if not isinstance(table, Mapping):
        raise GuardrailError(
            f"guardrails: expected a table such as {{ max_task_attempts = 3 }}, was {shown(table)}; correct it"
        )
    given = cast("Mapping[object, object]", table)
    known = {each.name: each for each in fields(Guardrails)}
    read: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in given.items():
        try:
            if name not in known:
                raise GuardrailError(_describe_unknown(name, tuple(known), "guardrails"))
            one: dict[str, Any] = {str(name): _value(str(name), value)}
            Guardrails(**one)
            read |= one
        except GuardrailError as error:
            text = str(error)
            problems.append(text if text.startswith("guardrails: ") else f"guardrails: {text}")
    if problems:
        raise GuardrailError("; ".join(problems)[:2000])
    return Guardrails(**read)


def _value(name: str, value: object) -> object:
    if name == "no_progress":
        return read_no_progress(value)
    if name in _DECIMALS and (isinstance(value, str) or type(value) in (int, float)):
        try:
            return Decimal(str(value))
        except (InvalidOperation, ValueError):
            return value
    return value if name != "deadline_s" or type(value) is not int else _float(value)


def _float(value: int) -> object:
    return float(value) if value.bit_length() < 60 else value


def read_no_progress(table: object) -> NoProgress:
    """Return the guard that a table describes.

    Raises:
        GuardrailError: it describes none.
    """
    if isinstance(table, NoProgress):
        return table
    if not isinstance(table, Mapping):
        wanted = 'a table such as { steps = 5, policy = "block" }'
        raise GuardrailError(f"guardrails: no_progress: expected {wanted}, was {shown(table)}; correct it")
    given = cast("Mapping[object, Any]", table)
    known = ("steps", "policy", "ignore")
    for name in given:
        if name not in known:
            raise GuardrailError(_describe_unknown(name, known, "no_progress"))
    if "steps" not in given:
        raise GuardrailError("no_progress: steps: expected a whole number from 1 up, was missing; add it")
    return NoProgress(**{str(name): value for name, value in given.items()})


def _describe_unknown(name: object, known: tuple[str, ...], where: str) -> str:
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in str(name)[:100])
    near = get_close_matches(snake, known, 1)
    wanted = repr(near[0]) if near else f"one of {', '.join(known)}"
    return f"{where}: unknown key {shown(name)}: expected {wanted}; correct or remove it"


def read_together(*tables: object) -> Guardrails:
    """Return what several tables say together, such as those of all harnesses and of one: the tighter of what is named twice.

    What none of them names has its default. Of two `no_progress` guards the last one holds: they are of different kinds.

    Raises:
        GuardrailError: one of them cannot be read.
    """
    made: dict[str, Any] = {}
    for table in tables:
        read = read_guardrails(table)
        for name in map(str, cast("Mapping[object, object]", table)):
            value = getattr(read, name)
            made[name] = _tighter(name)(made[name], value) if made.get(name) is not None and value is not None else value
    return Guardrails(**made)


def _tighter(name: str) -> Callable[[Any, Any], Any]:
    if name in ("no_progress", "reset"):
        return lambda one, other: other or one
    return max if name.startswith("require_") else min
