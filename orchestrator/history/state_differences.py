"""Differences between two states, as readable paths. Pure, except for reading the two states.

    account.cash: 100 -> 90            the value changed
    features[3].passes: false -> true
    fills[7]: + {"price":"101.5"}      added
    orders["a b"]: - {"side":"buy"}    removed

A list that lost items at its front and gained others at its end, like a sliding window, is recognised: unchanged items are
not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, TypeAlias, TypeGuard

import msgspec
from attrs import frozen

from orchestrator.history.state_at_step import Source, state_at
from orchestrator.text.json_text import json_text
from orchestrator.text.terminal_text import one_line

Place: TypeAlias = tuple[str | int, ...]
_WORD = re.compile(r"[^\W\d][\w-]*")
_VALUE_WIDTH, _PATH_WIDTH = 120, 300
_written = msgspec.json.Encoder(order="sorted").encode
_SLIDES = 64
"""Limit on removed items at the front of a list that are recognised."""


class ChangeKind(StrEnum):
    """What happened at a place."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@frozen
class Change:
    """One place of a state that changed."""

    place: Place
    """Keys and indexes of the place: in the old state if it was removed, else in the new one."""
    kind: ChangeKind
    before: Any = None
    after: Any = None

    @property
    def path(self) -> str:
        """The place as a readable path; the whole state is `state`."""
        return path_of(self.place)

    @property
    def line(self) -> str:
        """The change on one line, without secrets or control characters."""
        path = one_line(self.path, _PATH_WIDTH)
        if self.kind is ChangeKind.ADDED:
            return f"{path}: + {_format(self.after)}"
        if self.kind is ChangeKind.REMOVED:
            return f"{path}: - {_format(self.before)}"
        return f"{path}: {_format(self.before)} -> {_format(self.after)}"

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        sides = {"before": self.before, "after": self.after}
        gone = {ChangeKind.ADDED: "before", ChangeKind.REMOVED: "after"}.get(self.kind)
        said = {name: value for name, value in sides.items() if name != gone}
        return {"path": self.path, "place": list(self.place), "kind": self.kind.value, **said}


def diff(source: Source, name: str, before: int, after: int) -> tuple[Change, ...]:
    """Return what changed in the state of a harness from one step to another, in either direction.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it has no such step, or the step was pruned.
    """
    return between(state_at(source, name, before), state_at(source, name, after))


def between(before: Any, after: Any) -> tuple[Change, ...]:
    """Return what changed between two states, as plain data, in the order of the new one."""
    return tuple(_between((), before, after))


def path_of(place: Place) -> str:
    """Return a place as a readable path: `account.cash`, `features[3]`, `prices["EUR/USD"]`."""
    text = "".join(map(_part, place)).removeprefix(".")
    return text or "state"


def _part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _WORD.fullmatch(part) else f"[{msgspec.json.encode(part).decode()}]"


def _format(value: Any) -> str:
    return one_line(json_text(value), _VALUE_WIDTH)


def _between(place: Place, before: Any, after: Any) -> Iterator[Change]:
    if _is_dict(before) and _is_dict(after):
        yield from _between_dicts(place, before, after)
    elif _is_list(before) and _is_list(after):
        yield from _between_lists(place, before, after)
    elif not _same(before, after):
        yield Change(place, ChangeKind.CHANGED, before, after)


def _is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _between_dicts(place: Place, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    for key, value in before.items():
        if key not in after:
            yield Change((*place, key), ChangeKind.REMOVED, before=value)
    for key, value in after.items():
        if key not in before:
            yield Change((*place, key), ChangeKind.ADDED, after=value)
        elif not _is_plainly_same(before[key], value):
            yield from _between((*place, key), before[key], value)


def _between_lists(place: Place, before: list[Any], after: list[Any]) -> Iterator[Change]:
    start = _count_gone(before, after)
    for index in range(start):
        yield Change((*place, index), ChangeKind.REMOVED, before=before[index])
    stayed = min(len(before) - start, len(after))
    for index in range(stayed):
        if not _is_plainly_same(before[start + index], after[index]):
            yield from _between((*place, index), before[start + index], after[index])
    for index in range(start + stayed, len(before)):
        yield Change((*place, index), ChangeKind.REMOVED, before=before[index])
    for index in range(stayed, len(after)):
        yield Change((*place, index), ChangeKind.ADDED, after=after[index])


def _count_gone(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return how many items were removed at the front, if all others follow in a row at the front of the new list."""
    if not before or not after or _same(before[0], after[0]):
        return 0
    for start in range(1, min(len(before), _SLIDES)):
        stayed = len(before) - start
        if stayed <= len(after) and all(map(_same, before[start:], after)):
            return start
    return 0


def _is_plainly_same(before: Any, after: Any) -> bool:
    """Return whether two values are the same text or number; a fast path, since most values of a large state are."""
    cls = after.__class__
    return (cls is str or cls is int) and before.__class__ is cls and bool(before == after)


def _same(before: Any, after: Any) -> bool:
    """Return whether two values have the same JSON: 1, 1.0 and true are equal in Python, but differ here."""
    if before is after:
        return True
    if before.__class__ is not after.__class__:
        return False
    return bool(before == after) if isinstance(before, str | int) else _written(before) == _written(after)
