"""What every verb shares: the parser and its complaints, the options that stand before or after a verb, the store.

The law: an option is checked before anything is done, and what is wrong with it is one line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NoReturn, TypeAlias

from orchestrator.errors import UsageError
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.command_hints import DEFAULT_STORE as DEFAULT_STORE

Add: TypeAlias = Callable[..., argparse.ArgumentParser]
CarryOut: TypeAlias = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything here does."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def add_verb(
    add: Add, name: str, help: str, carry_out: CarryOut, more: str = "", *, aliases: Sequence[str] = ()
) -> argparse.ArgumentParser:
    """Return the parser of a verb.

    Args:
        more: what its own help says besides.
        aliases: other names of it.
    """
    parser = add(
        name,
        aliases=aliases,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(carry_out=carry_out)
    return parser


def add_common(parser: argparse.ArgumentParser, json_help: str | None = None, *, default: bool = False) -> None:
    """Add what may stand before and after the verb. After it there is no default, which would undo what stood before."""
    store = "where everything is recorded (default: $ORCHESTRATOR_STORE, what the run file says, or run.db)"
    parser.add_argument("--store", metavar="PATH", default=None if default else argparse.SUPPRESS, help=store)
    help = json_help or "standard output is JSON, one object a line"
    parser.add_argument("--json", action="store_true", default=False if default else argparse.SUPPRESS, help=help)


def join_verb(arguments: Sequence[str], verbs: Collection[str]) -> list[str]:
    """Return the arguments with the words of a verb that has two made one, wherever options stand."""
    places = list(islice(_plain(arguments), 2))
    verb = " ".join(arguments[place] for place in places)
    if len(places) < 2 or verb not in verbs:
        return list(arguments)
    first, second = places
    return [*arguments[:first], verb, *arguments[first + 1 : second], *arguments[second + 1 :]]


def verb_of(arguments: Sequence[str]) -> str | None:
    """Return the verb among the arguments, None if there is none."""
    return next((arguments[place] for place in _plain(arguments)), None)


def split_own(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the command's arguments, and those that follow `--` after the verb `run`, which are the program's own."""
    given = list(arguments)
    if "--" not in given or verb_of(given) != "run":
        return given, ()
    place = given.index("--")
    return given[:place], tuple(given[place + 1 :])


def _plain(arguments: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words before `--` that are neither options nor the value of `--store`."""
    skip = False
    for place, word in enumerate(arguments):
        if word == "--":
            return
        if not skip and not word.startswith("-"):
            yield place
        skip = word == "--store" and not skip


def count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 up, was {text!r}")
    return int(text)


def number(text: str) -> int:
    if text.startswith("-") and text[1:].isdecimal():
        raise argparse.ArgumentTypeError(f"expected a step number from 1 up, was {text!r}")
    return count(text)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1e9:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, was {text!r}")
    return value


def words(text: str) -> str:
    """Return text that can be stored: bytes of the command line that are no UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"expected text in UTF-8, was {text!r}") from None
    return text


def store_of(options: argparse.Namespace) -> str:
    """Return where the store is."""
    return options.store or os.environ.get("ORCHESTRATOR_STORE") or DEFAULT_STORE


def reader_of(options: argparse.Namespace) -> SqliteReader:
    """Return what reads the store."""
    return SqliteReader(store_of(options))


def print_all(lines: Iterable[str]) -> int:
    """Write lines to standard output and return how many there were."""
    written = 0
    for text in lines:
        sys.stdout.write(f"{text}\n")
        written += 1
    return written
