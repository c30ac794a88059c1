"""The file of a cassette: JSON lines, one for each exchange, in the order in which they ended.

    {"cassette": 1}                                                             first line of each recording
    {"asked": {"model": {…}}, "answered": {…}}                                  a model call: request, response
    {"asked": {"model": {…}}, "answered": {"error": "ContextTooLong", …}}       one that failed for good
    {"asked": {"tool": "…", "arguments": {…}}, "answered": {"text": "…", …}}    a tool call
    {"asked": {"tools": 0}, "answered": [{…}, …]}                               the tools that a source offered

Invariants: no secret is written. Each line is written whole, also by several processes. Two questions are the same if they are
equal as JSON once secrets and the patterns to be ignored are replaced.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from attrs import define, field, frozen

from harnesses.data.json_depth import MAX_LEVELS, is_too_deep
from harnesses.errors import Waiting
from harnesses.redaction import redact

Json: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool | None
VERSION = 1
_MOST_SHOWN = 3
"""Differences in a message."""
_CONTEXT = 30
"""Characters shown before and after the position where two texts begin to differ."""
_MOST_LEVELS = 2 * MAX_LEVELS
"""Levels of a line: an exchange has few more than the arguments in it."""
_MISSING = object()


class CassetteMiss(Waiting):
    """A cassette has no answer to a request, or cannot be read. Nothing was sent, and the harness is blocked."""


@frozen
class Exchange:
    """A recorded question with its answer."""

    line: int
    asked: Json
    answered: Json


@define(eq=False)
class CassetteFile:
    """The exchanges of a file.

    Args:
        ignored: patterns of what differs from run to run, such as paths of temporary folders, with what replaces it.
    """

    path: Path
    ignored: Mapping[str, str]
    _exchanges: list[Exchange] | None = None
    _by_digest: dict[str, list[Exchange]] = field(factory=dict[str, list[Exchange]])
    _used: dict[str, int] = field(factory=dict[str, int])
    _is_begun: bool = False

    def normalise(self, value: object) -> Json:
        """Return a value as plain JSON, with secrets and what is ignored replaced."""
        return self._replace(redact(cast(Json, msgspec.json.decode(msgspec.json.encode(value)))))

    def _replace(self, value: Json) -> Json:
        if not self.ignored:
            return value
        if isinstance(value, str):
            for pattern, instead in self.ignored.items():
                value = re.sub(pattern, instead, value)
            return value
        if isinstance(value, list):
            return [self._replace(item) for item in value]
        if isinstance(value, dict):
            return {key: self._replace(item) for key, item in value.items()}
        return value

    # recording

    def add(self, asked: object, answered: object) -> None:
        """Append an exchange.

        Raises:
            OSError: it cannot be written.
        """
        lines: list[Json] = [] if self._is_begun else [{"cassette": VERSION}]
        lines.append({"asked": self.normalise(asked), "answered": self.normalise(answered)})
        text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            while text:
                text = text[os.write(descriptor, text) :]
        finally:
            os.close(descriptor)
        self._is_begun = True

    # replaying

    def take(self, asked: object, subject: str) -> Json:
        """Return the answer to a question, the next one if it was recorded several times.

        Raises:
            CassetteMiss: there is none, none is left, or the file cannot be read.
        """
        question = self.normalise(asked)
        digest = _digest(question)
        exchanges = self._read()
        known = self._by_digest.get(digest, [])
        used = self._used.get(digest, 0)
        if used >= len(known):
            raise CassetteMiss(self._missing(subject, question, len(known), exchanges))
        self._used[digest] = used + 1
        return known[used].answered

    def _read(self) -> list[Exchange]:
        if self._exchanges is None:
            self._exchanges = list(_read_lines(self.path))
            for exchange in self._exchanges:
                self._by_digest.setdefault(_digest(self.normalise(exchange.asked)), []).append(exchange)
        return self._exchanges

    def _missing(self, subject: str, question: Json, known: int, exchanges: list[Exchange]) -> str:
        if known:
            return (
                f"cassette {self.path} has no further answer to {subject}: expected at most {known} identical requests, as "
                f"recorded, got one more; record it anew"
            )
        kind = _kind(question)
        asked = {
            exchange.line: _flat(self.normalise(exchange.asked)) for exchange in exchanges if _kind(exchange.asked) == kind
        }
        if not asked:
            return f"cassette {self.path} has no answer to {subject}: expected recorded ones, got none; record it anew"
        wanted = _flat(question)
        line, nearest = min(asked.items(), key=lambda item: _distance(item[1], wanted))
        return (
            f"cassette {self.path} has no answer to {subject}: expected one of {len(asked)} recorded requests, got one that "
            f"differs from the nearest, line {line}: {'; '.join(_differences(nearest, wanted))}; record it anew"
        )


def _read_lines(path: Path) -> Iterator[Exchange]:
    try:
        text = path.read_bytes().removeprefix(BOM_UTF8)
    except OSError as error:
        raise CassetteMiss(
            f"cassette {path} cannot be read: expected a recording, got {error.strerror}; record it first"
        ) from error
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            if is_too_deep(line.decode(errors="replace"), _MOST_LEVELS):
                raise ValueError(f"more than {_MOST_LEVELS} levels")
            found: Any = msgspec.json.decode(line)
            version = found.get("cassette", VERSION)
            if version != VERSION:
                raise CassetteMiss(
                    f"cassette {path}, line {number}: expected version {VERSION}, got {version!r}; record it anew"
                )
            if "asked" in found:
                yield Exchange(number, found["asked"], found["answered"])
        except (ValueError, msgspec.DecodeError, AttributeError, KeyError) as error:
            raise CassetteMiss(
                f"cassette {path}, line {number}, is malformed: expected an exchange, got {line[:60]!r}; record it anew"
            ) from error


def _digest(question: Json) -> str:
    return hashlib.sha256(msgspec.json.encode(question, order="deterministic")).hexdigest()


def _kind(question: Json) -> str:
    return min(question, default="") if isinstance(question, dict) else ""


# what differs


def _flat(value: Json, path: str = "") -> dict[str, object]:
    """Return the leaves of a value by their paths."""
    if isinstance(value, dict):
        items = [(f"{path}.{key}" if path else key, item) for key, item in value.items()]
    elif isinstance(value, list):
        items = [(f"{path}[{place}]", item) for place, item in enumerate(value)]
    else:
        return {path: value}
    return {name: leaf for below, item in items for name, leaf in _flat(item, below).items()}


def _paths(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    return [path for path in {**one, **other} if one.get(path, _MISSING) != other.get(path, _MISSING)]


def _distance(one: Mapping[str, object], other: Mapping[str, object]) -> tuple[int, int]:
    """Return how many leaves differ, and as what decides between equals, how soon those that are texts do."""
    paths = _paths(one, other)
    return len(paths), -sum(_parting(one.get(path), other.get(path)) for path in paths)


def _parting(one: object, other: object) -> int:
    """Return the length of the common beginning of two texts."""
    if not isinstance(one, str) or not isinstance(other, str):
        return 0
    at = (place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(at, min(len(one), len(other)))


def _differences(recorded: Mapping[str, object], asked: Mapping[str, object]) -> Iterator[str]:
    paths = _paths(recorded, asked)
    for path in paths[:_MOST_SHOWN]:
        was, now = recorded.get(path, _MISSING), asked.get(path, _MISSING)
        if isinstance(was, str) and isinstance(now, str):
            at = _parting(was, now)
            was, now = (text[max(0, at - _CONTEXT) : at + _CONTEXT] for text in (was, now))
        yield f"{path} was {_shown(was)}, is {_shown(now)}"
    if len(paths) > _MOST_SHOWN:
        yield f"and {len(paths) - _MOST_SHOWN} more"


def _shown(value: object) -> str:
    return "missing" if value is _MISSING else f"{value!r:.100}"
