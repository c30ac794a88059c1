"""Loads the two command tables from text files, and parses the options and operands of a command by its row.

    harmless.txt    commands that pass; all others do not. Options are compared whole: `--outp` is not `--output`
    patterns.txt    patterns of well-known dangers, kinds of paths, repository settings

The danger patterns neither pass nor block a command. They name the danger of a blocked command for the person who is asked,
and are searched anywhere in its text, so that `sudo sh -c 'rm -rf src'` is described correctly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from attrs import define, evolve, field, frozen

from harnesses.guard.command_model import HOLE, NETWORK, RUN_CODE, NotHarmless, Unreadable, Word

_LETTER = re.compile(r"(\S)([:?]?)")
_MAY_BEGIN_WITH_DASH = ("-e", "--expression", "--regexp", "-m", "--message")


@frozen
class Row:
    """The harmless options and operands of one program or verb."""

    letters: Mapping[str, str]
    """Short options; the value is `:` for a required argument, `?` for an optional one, empty for none."""
    names: Mapping[str, str]
    """Long options with their dashes; the value is `=` for a required argument, `?` for an optional one, empty for none."""
    changes: str
    """The kind of change it makes; empty if it only reads."""
    operands: str
    """The name of an operand check, or a pattern."""
    wide: bool
    """Whether words known only at run time may become options, because no option of the program is harmful."""


@cache
def table() -> Mapping[tuple[str, ...], Row]:
    """Return the table, by program and verb."""
    rows: dict[tuple[str, ...], Row] = {}
    for line in Path(__file__).with_name("harmless.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        called, letters, names, changes, operands = (part.strip(" ") for part in line.split("|", 4))
        is_wide = operands in ("any+", "read+", "pattern+")
        options = (one if one.startswith("-") else f"--{one}" for one in names.split())
        row = Row(
            letters={found[1]: found[2] for found in _LETTER.finditer(letters)},
            names={one.rstrip("=?"): one[len(one.rstrip("=?")) :] for one in options},
            changes=changes,
            operands=operands.removesuffix("+") if is_wide else operands,
            wide=is_wide,
        )
        rows |= {tuple(name.split()): row for name in called.split(",")}
    return rows


def row_of(words: tuple[str, ...]) -> tuple[Row, int] | None:
    """Return the row of the longest program and verb that the words begin with, and its length in words; or None."""
    for length in (3, 2, 1):
        if (row := table().get(words[:length])) is not None and len(words) >= length:
            return row, length
    return None


@define
class Read:
    """The parsed words of a command after its program and verb."""

    options: list[tuple[str, Word | None]] = field(factory=list[tuple[str, Word | None]])
    operands: list[Word] = field(factory=list[Word])

    def values(self, *names: str) -> list[Word | None]:
        """Return the values given to these options, one per occurrence."""
        return [value for name, value in self.options if name in names]


def read_options(row: Row, words: Sequence[Word]) -> Read:
    """Parse the options and operands of a command.

    Raises:
        NotHarmless: an option is not in the table, or a word may become an option at run time.
    """
    read, waiting = Read(), list(words)
    while waiting:
        word = waiting.pop(0)
        if word.known and word.text == "--":
            read.operands += waiting
            break
        if word.may_be_option and not row.wide:
            raise Unreadable(f"`{word}` may become an option at run time")
        if not word.text.startswith("-") or word.text == "-":
            read.operands.append(word)
        elif word.splits and not row.wide:
            raise Unreadable(f"`{word}` may become several words at run time")
        elif word.text.startswith("--") or word.text in row.names:
            option, joined, value = word.text.partition("=")
            _note(option, row.names.get(option), evolve(word, text=value) if joined else None, waiting, read)
        elif not ("#" in row.letters and re.fullmatch("-[0-9]+", word.text)):
            _letters(row, word, waiting, read)
    return read


def _letters(row: Row, word: Word, waiting: list[Word], read: Read) -> None:
    text = word.text[1:]
    while text:
        letter, text = text[0], text[1:]
        kind = row.letters.get(letter) if letter != "#" else None
        value = evolve(word, text=text) if text and kind else None
        _note(f"-{letter}", kind, value, waiting, read)
        if kind:
            return


def _note(option: str, kind: str | None, value: Word | None, waiting: list[Word], read: Read) -> None:
    """Add an option with its value, which is the next word if the option requires one."""
    if kind is None or (value is not None and not kind):
        raise NotHarmless(
            f"option `{option.replace(HOLE, '…')}` is not in the table of harmless options, or takes a value there"
        )
    if value is None and kind not in ("", "?"):
        if not waiting or waiting[0].splits or waiting[0].glob:
            raise Unreadable(f"the value of option `{option}` is unknown")
        value = waiting.pop(0)
        # If the option takes no value after all, the next word would be an option itself.
        if re.match(r"[-\0](?!\d+\w?$).", value.text) and option not in _MAY_BEGIN_WITH_DASH:
            raise NotHarmless(f"option `{option}` is followed by what may be another option: {value}")
    read.options.append((option, value))


_START = r"(?:^|[\s;&|({`'\"/\\])"
MAX_SEARCHED = 2_000
"""Maximum number of characters searched in a command, since the patterns backtrack."""


@cache
def _table() -> tuple[tuple[str, str, str], ...]:
    """Return the rows of the pattern table: kind, pattern and reason."""
    lines = Path(__file__).with_name("patterns.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return tuple((kind, pattern, why) for kind, pattern, why in rows)


@cache
def _kind(kind: str) -> re.Pattern[str]:
    return re.compile("|".join(pattern for one, pattern, _ in _table() if one == kind), re.IGNORECASE)


@cache
def _dangers() -> tuple[tuple[str, re.Pattern[str], str], ...]:
    named = (row for row in _table() if not row[0].startswith(("path-", "git-setting")))
    return tuple((kind, re.compile(f"{_START}(?:{pattern})", re.DOTALL), why) for kind, pattern, why in named)


def is_kind(kind: str, text: str) -> bool:
    """Return whether a path or a setting matches a pattern of a kind."""
    return _kind(kind).search(text) is not None


def dangers(text: str) -> Iterator[tuple[str, str]]:
    """Yield category and reason of each well-known danger in a text; `NETWORK` and `RUN_CODE` only if no other is found."""
    line = " ".join(text[:MAX_SEARCHED].split())
    found = [(category, why) for category, pattern, why in _dangers() if pattern.search(line)]
    certain = [one for one in found if one[0] not in (NETWORK, RUN_CODE)]
    yield from dict(certain or found[:1]).items()
