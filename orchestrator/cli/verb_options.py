"""Types of the arguments and options that verbs share, and how verbs reach the store and write lines.

An option is checked before anything is done, and what is wrong with it is reported in one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from attrs import frozen
from cyclopts import Parameter, Token

from orchestrator.store.places.store_location import local_path
from orchestrator.text.command_hints import DEFAULT_STORE as DEFAULT_STORE

if TYPE_CHECKING:
    from orchestrator.store.sqlite.sqlite_reader import SqliteReader

T = TypeVar("T")


def converter(read: Callable[[str], T]) -> Callable[[type, Sequence[Token]], T]:
    """Return a converter for cyclopts. `read` raises ValueError with what it expected; the last of several values counts."""

    def convert(_: type, tokens: Sequence[Token]) -> T:
        return read(tokens[-1].value)

    return convert


def count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(f"expected a whole number from 0 up, got {text!r}")
    return int(text)


def number(text: str) -> int:
    if text.startswith("-") and text[1:].isdecimal():
        raise ValueError(f"expected a step number from 1 up, got {text!r}")
    return count(text)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1e9:
        raise ValueError(f"expected seconds above 0, got {text!r}")
    return value


def words(text: str) -> str:
    """Return text that can be stored: bytes of the command line that are not UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"expected text in UTF-8, got {text!r}") from None
    return text


def words_or_dash(text: str) -> str:
    """Return text, which may be `-` for standard input or output. An option in its place is a mistake."""
    if text.startswith("--") or (text.startswith("-") and text[1:].isalpha()):
        raise ValueError(f"expected a value, got the option {text!r}")
    return words(text)


Count = Annotated[int, Parameter(converter=converter(count), metavar="N")]
StepNumber = Annotated[int, Parameter(converter=converter(number), metavar="STEP")]
Seconds = Annotated[float, Parameter(converter=converter(seconds), metavar="S")]
Words = Annotated[str, Parameter(converter=converter(words), metavar="TEXT")]
WordsOrDash = Annotated[str, Parameter(converter=converter(words_or_dash), metavar="TEXT", allow_leading_hyphen=True)]
Name = Annotated[str, Parameter(metavar="NAME")]
Names = Annotated[tuple[str, ...], Parameter(metavar="NAME")]
FilePath = Annotated[Path, Parameter(metavar="FILE")]

_STORE = "where everything is recorded (default: $ORCHESTRATOR_STORE, what the run file says, or run.db)"


@Parameter(name="*")
@frozen
class Common:
    """Options of every verb. They may stand before the verb, too."""

    store: Annotated[str | None, Parameter(metavar="PATH|ADDRESS", help=_STORE)] = None
    json: Annotated[bool, Parameter(help="write JSON to standard output, one object a line")] = False

    @property
    def store_path(self) -> str:
        """Path of the store; for one on a server, that of its local copy as of now.

        Raises:
            StoreUnusable: the server does not answer, or has no store there.
        """
        return str(local_path(self.location))

    @property
    def location(self) -> str:
        """Where the store is: a path, or the address of a database on a server."""
        return self.store or os.environ.get("ORCHESTRATOR_STORE") or DEFAULT_STORE

    def reader(self) -> SqliteReader:
        """Return what reads the store."""
        from orchestrator.store.sqlite.sqlite_reader import SqliteReader

        return SqliteReader(self.store_path)


USUAL = Common()
"""The options where none is given."""


def print_all(lines: Iterable[str]) -> int:
    """Write lines to standard output and return how many there were."""
    written = 0
    for text in lines:
        sys.stdout.write(f"{text}\n")
        written += 1
    return written
