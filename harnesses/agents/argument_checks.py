"""Checks of the arguments of agents, tools and models, when they are made: one line says what is wrong and what to give.

A function calls `check`, a class of attrs has `validator`s:

    check("ModelAgent", "budget", budget, optional(instance_of(Budget, "write budget=Budget(tokens=…)")))
    timeout_s: float = field(default=60.0, validator=validator("MCP server", SECONDS))
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any, cast

from attrs import Attribute, evolve, frozen

from harnesses.errors import HarnessMisuse


@frozen
class Rule:
    """What an argument must be."""

    wanted: str
    holds: Callable[[Any], bool]
    do: str = "correct it"
    is_shown: bool = True
    """Whether the message shows the value; otherwise its type alone, since it may be a secret."""


def check(subject: str, name: str, value: object, rule: Rule) -> None:
    """Check an argument.

    Args:
        subject: whose argument it is.

    Raises:
        HarnessMisuse: it does not hold.
    """
    if not rule.holds(value):
        got = f"{value!r:.200}" if rule.is_shown else type(value).__name__
        raise HarnessMisuse(f"{subject}: {name}: expected {rule.wanted}, got {got}; {rule.do}")


def validator(subject: str, rule: Rule) -> Callable[[Any, Attribute[Any], Any], None]:
    """Return the rule as a validator of attrs."""

    def validate(owner: Any, attribute: Attribute[Any], value: Any) -> None:
        check(subject, attribute.name, value, rule)

    return validate


def listed(subject: str, name: str, values: Iterable[Any], rule: Rule) -> tuple[Any, ...]:
    """Return the values of an argument that is a list, checked.

    Raises:
        HarnessMisuse: the rule does not hold.
    """
    given = list(values) if isinstance(values, Iterator) else values
    check(subject, name, given, rule)
    return tuple(given)


def instance_of(kind: type, do: str) -> Rule:
    """Return the rule for a value of a class of this project."""
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return Rule(f"{article} {kind.__name__}", lambda value: isinstance(value, kind), do)


def optional(rule: Rule) -> Rule:
    """Return the rule that holds for None too."""

    def holds(value: Any) -> bool:
        return value is None or rule.holds(value)

    return evolve(rule, wanted=f"{rule.wanted}, or None", holds=holds)


def whole_from(least: int) -> Rule:
    """Return the rule for whole numbers from `least` up."""

    def holds(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= least

    return Rule(f"a whole number from {least} up", holds)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_iterable(value: object, kind: type | tuple[type, ...]) -> bool:
    # Not an iterator: it would be used up here.
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | Iterator)
    return is_list and all(isinstance(each, kind) for each in cast(Iterable[object], value))


def _is_environment(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(text, str) for item in cast(Mapping[object, object], value).items() for text in item
    )


def _are_patterns(value: object) -> bool:
    try:
        return _is_environment(value) and all(map(re.compile, cast(Mapping[str, str], value)))
    except re.error:
        return False


TEXT = Rule("text", lambda value: isinstance(value, str))
NAME = Rule("a name", lambda value: isinstance(value, str) and bool(value.strip()), "give one that is not blank")
FLAG = Rule("True or False", lambda value: isinstance(value, bool))
SECONDS = Rule("seconds above 0", lambda value: _is_number(value) and value > 0)
SECONDS_FROM_0 = Rule("seconds from 0 up", lambda value: _is_number(value) and 0 <= value < inf)
PATH = Rule("a path", lambda value: isinstance(value, str | os.PathLike) and os.fspath(cast(Any, value)) not in ("", b""))
PATHS = Rule("a list of paths", lambda value: _is_iterable(value, (str, os.PathLike)), "write [path], also for one")
TEXTS = Rule("a list of texts", lambda value: _is_iterable(value, str), "write [text], also for one")
WORDS = Rule(
    "a list of the program and its arguments", lambda value: _is_iterable(value, str), "write ['program', 'argument']"
)
VARIABLES = Rule("a dict of texts by name", _is_environment, "write {'NAME': 'value'}", is_shown=False)
PATTERNS = Rule("a dict of regular expressions with what replaces each", _are_patterns)
