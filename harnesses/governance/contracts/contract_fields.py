"""Reads a contract object field by field, collecting all problems. Pure.

Invariants: a problem names the path of its value; reading continues after a problem, so that all are reported at once; all
values that were read are bounded and can be stored and shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from math import isfinite
from typing import Any, TypeVar, cast

from harnesses.features.agent_text import is_storable
from harnesses.governance.contracts.contract import EvidenceItem
from harnesses.governance.errors import ContractError

MAX_DOCUMENT = 1_000_000
"""Characters, or bytes, of a whole contract."""
MAX_TEXT = 20_000
"""Characters of one text."""
MAX_ITEMS = 10_000
"""Items of one list, fields of one object."""
MAX_DEPTH = 32
_MAX_PROBLEMS = 200
_MOST = 2**63
"""Limit of signed 64-bit integers, which all JSON implementations support."""
_WordT = TypeVar("_WordT", bound=StrEnum)
_ABSENT = object()


class Fields:
    """Reads the fields of one object.

    Args:
        problems: list that receives the problems; shared by all objects of a document.
    """

    def __init__(self, data: Mapping[object, object], path: str, problems: list[str]) -> None:
        self._data = data
        self.path = path
        self._problems = problems
        self._seen: set[object] = set()

    def refuse(self, path: str, wanted: str, value: object, way_out: str = "correct it") -> None:
        """Add a problem: a value is not as expected."""
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(f"{path}: expected {wanted}, got {shown(value)}; {way_out}")

    def text(self, name: str, *, required: bool = True, blank: bool = True) -> str:
        """Return a text; "" if it is absent, which is a problem if it is required."""
        value = self._take(name, required, "text")
        return "" if value is _ABSENT else self._check_text(f"{self.path}.{name}", value, blank)

    def word(self, name: str, words: type[_WordT], otherwise: _WordT) -> _WordT:
        """Return an enum member."""
        wanted = " or ".join((", ".join(words)).rsplit(", ", 1))
        value = self._take(name, True, wanted)
        if isinstance(value, str) and value in tuple(words):
            return words(value)
        if value is not _ABSENT:
            self.refuse(f"{self.path}.{name}", wanted, value)
        return otherwise

    def texts(self, name: str, *, required: bool = False) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(self._check_text(path, item, True) for path, item in self._list(name, "a list of texts", required))

    def evidence(self, name: str) -> tuple[EvidenceItem, ...]:
        """Return a list of texts and objects."""
        found: list[EvidenceItem] = []
        for path, item in self._list(name, "a list of texts or objects", False):
            if isinstance(item, Mapping):
                found.append(self._check_object(path, cast(Mapping[object, object], item)))
            else:
                found.append(self._check_text(path, item, True, "text or an object"))
        return tuple(found)

    def free(self, name: str) -> dict[str, object] | None:
        """Return an object with arbitrary fields; None if it is absent."""
        value = self._object(name)
        return None if value is None else self._check_object(f"{self.path}.{name}", value)

    def inner(self, name: str) -> Fields | None:
        """Return an object to be read field by field; None if it is absent."""
        value = self._object(name)
        return None if value is None else Fields(value, f"{self.path}.{name}", self._problems)

    def inners(self, name: str, *, required: bool = False) -> list[Fields]:
        """Return a list of objects to be read field by field."""
        found: list[Fields] = []
        for path, item in self._list(name, "a list of objects", required):
            if isinstance(item, Mapping):
                found.append(Fields(cast(Mapping[object, object], item), path, self._problems))
            else:
                self.refuse(path, "an object", item)
        return found

    def raw(self, name: str) -> object:
        """Return a value unchanged; None if it is absent."""
        value = self._take(name, False, "")
        return None if value is _ABSENT else value

    def rest(self) -> dict[str, object]:
        """Return the fields that have not been read."""
        unknown = {key: value for key, value in self._data.items() if key not in self._seen}
        return self._check_object(self.path, unknown)

    def _take(self, name: str, required: bool, wanted: str) -> object:
        self._seen.add(name)
        value = self._data.get(name, _ABSENT)
        if required and (value is _ABSENT or value is None):
            was = "nothing" if value is _ABSENT else "null"
            if len(self._problems) < _MAX_PROBLEMS:
                self._problems.append(f"{self.path}.{name}: expected {wanted}, got {was}; add it")
            return _ABSENT
        return _ABSENT if value is None else value

    def _object(self, name: str) -> Mapping[object, object] | None:
        value = self.raw(name)
        if value is None or isinstance(value, Mapping):
            return cast("Mapping[object, object] | None", value)
        self.refuse(f"{self.path}.{name}", "an object", value)
        return None

    def _list(self, name: str, wanted: str, required: bool) -> list[tuple[str, object]]:
        value, path = self._take(name, required, wanted), f"{self.path}.{name}"
        if value is _ABSENT:
            return []
        if not isinstance(value, list | tuple):
            self.refuse(path, wanted, value)
            return []
        items = cast(Sequence[object], value)
        if len(items) > MAX_ITEMS:
            self.refuse(path, f"at most {MAX_ITEMS} items", items, "leave out what is not needed")
            return []
        return [(f"{path}[{place}]", item) for place, item in enumerate(items)]

    def _check_text(self, path: str, value: object, blank: bool, wanted: str = "text") -> str:
        if not isinstance(value, str):
            self.refuse(path, wanted, value)
        elif len(value) > MAX_TEXT:
            self.refuse(path, f"at most {MAX_TEXT} characters", value, "shorten it, or name a file that has it")
        elif not is_storable(value):
            self.refuse(path, "storable text, without NUL and lone surrogates", value)
        elif not blank and not value.strip():
            self.refuse(path, "text that is not blank", value)
        else:
            return value
        return ""

    def _check_object(self, path: str, value: Mapping[object, object]) -> dict[str, object]:
        before = len(self._problems)
        checked = self._check_json(path, value, 0)
        # A value with a problem is not used.
        return cast(dict[str, object], checked) if len(self._problems) == before else {}

    def _check_json(self, path: str, value: object, depth: int) -> object:
        """Return a private copy of a value that JSON can represent; its shape is arbitrary."""
        if depth > MAX_DEPTH:
            self.refuse(f"{path:.200}", f"at most {MAX_DEPTH} levels", value, "flatten it")
        elif isinstance(value, Mapping):
            return self._check_fields(path, cast(Mapping[object, object], value), depth)
        elif isinstance(value, list | tuple):
            items = cast(Sequence[object], value)
            if len(items) <= MAX_ITEMS:
                return [self._check_json(f"{path}[{place}]", item, depth + 1) for place, item in enumerate(items)]
            self.refuse(path, f"at most {MAX_ITEMS} items", items, "leave out what is not needed")
        elif isinstance(value, str):
            return self._check_text(path, value, True)
        elif value is None or isinstance(value, bool) or is_number(value):
            return value
        else:
            self.refuse(path, "a JSON value: text, finite numbers of 64 bits, true, false, null, lists, objects", value)
        return None

    def _check_fields(self, path: str, value: Mapping[object, object], depth: int) -> dict[str, object]:
        checked: dict[str, object] = {}
        if len(value) > MAX_ITEMS:
            self.refuse(path, f"at most {MAX_ITEMS} fields", value, "leave out what is not needed")
            return checked
        for key, item in value.items():
            if not isinstance(key, str) or len(key) > 200 or not is_storable(key):
                self.refuse(path, "fields with names of at most 200 characters", key, "rename it")
            else:
                checked[key] = self._check_json(f"{path}.{key}", item, depth + 1)
        return checked


def is_number(value: object) -> bool:
    """Return whether a value is a number that JSON can represent and every program reads back unchanged."""
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and -_MOST <= value < _MOST


def shown(value: object) -> str:
    """Return a short description of a value, safe to display."""
    if isinstance(value, str):
        return repr(value) if len(value) <= 80 else f"{value[:60]!r}… of {len(value)} characters"
    if isinstance(value, Mapping):
        return f"an object of {len(cast(Mapping[object, object], value))} fields"
    if isinstance(value, list | tuple):
        return f"a list of {len(cast(Sequence[object], value))} items"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _MOST:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value) if isinstance(value, int | float) else f"a {type(value).__name__}"


def read_document(data: Mapping[str, object] | str | bytes, name: str, build: Callable[[Fields], Any]) -> Any:
    """Parse a JSON object and return the result of `build`.

    Args:
        name: first part of the paths in problems.

    Raises:
        ContractError: with all problems.
    """
    loaded: object = parse(data, name) if isinstance(data, str | bytes) else data
    if not isinstance(loaded, Mapping):
        raise ContractError(f"{name}: expected an object, got {shown(loaded)}; hand in the contract itself")
    problems: list[str] = []
    made = build(Fields(cast(Mapping[object, object], loaded), name, problems))
    if problems:
        raise ContractError(problems)
    return made


def parse(text: str | bytes, name: str) -> object:
    """Parse a JSON text: UTF-8, no duplicate keys, no NaN.

    Raises:
        ContractError: it is not valid JSON of this kind.
    """
    if len(text) > MAX_DOCUMENT:
        raise ContractError(
            f"{name}: expected at most {MAX_DOCUMENT} characters, got {len(text)}; leave out what is not needed"
        )
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
        return json.loads(decoded, object_pairs_hook=_once_each, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise ContractError(f"{name}: expected UTF-8, got {error.reason} at byte {error.start}; save it as UTF-8") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ContractError(f"{name}: expected JSON, got a syntax error at {where}: {error.msg}; correct it") from error
    except _NotPlain as error:
        raise ContractError(f"{name}: expected {error}; correct it") from error
    except RecursionError as error:
        raise ContractError(f"{name}: expected at most {MAX_DEPTH} levels, got far more; flatten it") from error
    except ValueError as error:
        raise ContractError(f"{name}: expected numbers of 64 bits, got one with too many digits; correct it") from error


class _NotPlain(Exception):
    """JSON that Python accepts but other programs reject or read differently."""


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _NotPlain(f"each field once, got {twice[:80]!r} twice in one object")
    return found


def _no_constant(word: str) -> object:
    raise _NotPlain(f"numbers that JSON has, got {word}")
