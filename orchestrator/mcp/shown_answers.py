"""What a tool shows of an answer: metadata alone unless content is asked for, and no more than fits. Pure.

    answer of the API ──► metadata_of (without --content) ──► part_at(path) ──► page ──► {"note", "more", "data"}

Invariant: without content, a field is shown only if the table of tools names it, and its text only if it reads like a name, a
status or a time. Whatever is cut says so, and `path` and `skip` lead to the rest.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeGuard, cast

from attrs import define, field, frozen

from orchestrator.errors import UsageError
from orchestrator.text.json_text import json_line

MOST = 20_000
"""Characters of JSON that one answer has: about 6,000 tokens."""
_MOST_OF_ENTRY = MOST // 4
"""Characters of one entry of a list, so that a page has several."""
_LEAST = 40
"""Characters that are always shown of a value that is cut."""
_MOST_WITHHELD = 30
_NAME = re.compile(r"[\w.:/#@+=%,\[\]()-]+(?: [\w.:/#@+=%,\[\]()-]+){0,3}", re.ASCII)
_MOST_OF_NAME = 200
OPEN = "*"
"""At the end of a field's name in the table: numbers in it are shown under any name."""
_FIGURE = re.compile(r"-?\d+(\.\d+)?")


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_name(text: str) -> bool:
    """Return whether text reads like a name, a status or a time: short, in ASCII, of at most four words."""
    return not text or (len(text) <= _MOST_OF_NAME and _NAME.fullmatch(text) is not None)


@define
class Metadata:
    """Takes the metadata out of answers.

    Args:
        shown: names of the fields that are shown.
    """

    shown: Collection[str]
    _withheld: dict[str, None] = field(factory=dict[str, None])

    @property
    def withheld(self) -> list[str]:
        """The fields that were left out, in the order in which they came."""
        return list(self._withheld)[:_MOST_WITHHELD]

    def of(self, value: Any, name: str = "", *, is_open: bool = False) -> Any:
        """Return the metadata in a value; None in place of text that is none.

        Args:
            name: the field that the value is in.
            is_open: whether numbers within are shown under any name.
        """
        if isinstance(value, dict):
            fields = cast(dict[str, Any], value)
            return {key: self.of(one, key, is_open=self._is_open(key)) for key, one in self._chosen(fields, is_open)}
        if _is_list(value):
            return [self.of(one, name, is_open=is_open) for one in value]
        if isinstance(value, str) and not is_name(value):
            self._withheld[name] = None
            return None
        return value

    def _is_open(self, name: str) -> bool:
        return f"{name}{OPEN}" in self.shown

    def _chosen(self, fields: Mapping[str, Any], is_open: bool) -> list[tuple[str, Any]]:
        chosen: list[tuple[str, Any]] = []
        for name, value in fields.items():
            if name in self.shown or self._is_open(name) or (is_open and is_name(name) and _is_figure(value)):
                chosen.append((name, value))
            elif value not in ("", None, [], {}) and is_name(name):
                self._withheld[name] = None
        return chosen


def _is_figure(value: Any) -> bool:
    """Return whether a value is a number, also one as text, such as money; or none."""
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and bool(_FIGURE.fullmatch(value)))


@frozen
class Page:
    """As much of an answer as fits."""

    data: Any
    more: str = ""
    """How to ask for the rest; empty if there is none."""


def part_at(value: Any, path: str) -> Any:
    """Return the part of an answer at a path, such as `0/input/text`.

    Raises:
        UsageError: it has no such part.
    """
    if not path:
        return value
    steps = _steps_into(value)
    for step, inner in steps.items():
        if path == step or path.startswith(f"{step}/"):
            return part_at(inner, path[len(step) + 1 :])
    known = ", ".join(list(steps)[:20]) or "nothing"
    raise UsageError(f"path: no part {path!r:.200} there: expected one that begins with one of {known}; correct it")


def _steps_into(value: Any) -> Mapping[str, Any]:
    """Return the parts of a value by the words that lead to them, longer words first: a name may have a slash."""
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {name: fields[name] for name in sorted(fields, key=len, reverse=True)}
    return {str(place): one for place, one in enumerate(value)} if _is_list(value) else {}


def page_of(value: Any, skip: int) -> Page:
    """Return as much of an answer as fits: the entries, fields or characters from one on, with the longest parts cut."""
    if _is_list(value):
        return _entries(value, skip)
    if isinstance(value, str):
        return _characters(value, skip)
    return _fields(cast(dict[str, Any], value), skip) if isinstance(value, dict) else Page(value)


_CUT = 'what is cut is marked "… (N characters)" or "… (N more)": name that part with `path` to have it whole'


_MORE = "…"
"""The name of the field that stands for those that are left out."""


def _fields(fields: Mapping[str, Any], skip: int) -> Page:
    wanted = dict(list(fields.items())[skip:])
    fitted: dict[str, Any] = fit(wanted, MOST)
    shown = {name: one for name, one in fitted.items() if name != _MORE}
    is_cut = any(name not in wanted or wanted[name] != one for name, one in shown.items())
    return Page(shown, _rest("fields", skip, len(shown), len(fields), is_cut=is_cut))


def _entries(entries: Sequence[Any], skip: int) -> Page:
    shown: list[Any] = []
    room, is_cut = MOST, False
    for entry in entries[skip:]:
        fitted = fit(entry, _MOST_OF_ENTRY if len(entries) > 1 else MOST)
        room -= _size(fitted) + 1
        if shown and room < 0:
            break
        shown.append(fitted)
        is_cut = is_cut or fitted != entry
    return Page(shown, _rest("entries", skip, len(shown), len(entries), is_cut=is_cut))


def _characters(text: str, skip: int) -> Page:
    shown = _beginning(text[skip:], MOST)
    return Page(shown, _rest("characters", skip, len(shown), len(text), is_cut=False))


def _rest(what: str, skip: int, shown: int, count: int, *, is_cut: bool) -> str:
    """Return what is shown of a list, an object or a text, and how to ask for the rest; empty if all of it is shown."""
    said: list[str] = []
    if shown < count:
        said = [f"{what} {skip + 1} to {skip + shown} of {count} are shown" if shown else f"there are {count} {what}"]
    if skip + shown < count:
        said.append(f"`skip`: {skip + shown} has the next ones")
    return "; ".join([*said, *([_CUT] if is_cut else [])])


def fit(value: Any, room: int) -> Any:
    """Return a value with its longest parts cut, so that its JSON has about `room` characters at most."""
    if _size(value) <= room:
        return value
    if isinstance(value, dict):
        fields = {_short(name): one for name, one in cast(dict[str, Any], value).items()}
        shares = _shares({name: _size(one) + len(name) + 4 for name, one in fields.items()}, room)
        cut = {name: fit(one, max(shares[name] - len(name) - 4, _LEAST)) for name, one in fields.items() if name in shares}
        return cut if len(cut) == len(fields) else {**cut, _MORE: f"({len(fields) - len(cut)} more)"}
    if _is_list(value):
        return _fit_list(value, room)
    text = value if isinstance(value, str) else json_line(value)
    mark = f"… ({len(text)} characters)"
    return f"{_beginning(text, max(room - len(mark), _LEAST))}{mark}"


def _short(name: str) -> str:
    return name if len(name) <= _MOST_OF_NAME else f"{_beginning(name, _MOST_OF_NAME)}…"


def _beginning(text: str, room: int) -> str:
    """Return as much of a text as fits: characters that are escaped take more."""
    shown = text[:room]
    while (size := _size(shown)) > room:
        shown = shown[: len(shown) * room // size]
    return shown


def _fit_list(entries: list[Any], room: int) -> list[Any]:
    shown: list[Any] = []
    for entry in entries:
        fitted = fit(entry, max(room // 2, _LEAST))
        room -= _size(fitted) + 1
        if room < 0:
            break
        shown.append(fitted)
    return [*shown, f"… ({len(entries) - len(shown)} more)"] if len(shown) < len(entries) else shown


def _shares(sizes: Mapping[str, int], room: int) -> Mapping[str, int]:
    """Return how much room each field gets: the small ones what they need, the large ones equal parts of the rest.

    Fields that are too many to be shown at all are left out, the last ones first.
    """
    names = list(sizes)[: max(1, room // (2 * _LEAST))]
    shares: dict[str, int] = {}
    for count, name in zip(range(len(names), 0, -1), sorted(names, key=lambda name: sizes[name]), strict=True):
        shares[name] = min(sizes[name], room // count)
        room -= shares[name]
    return shares


def _size(value: Any) -> int:
    return len(json_line(value))
