"""The nouns of reading a command: words that may be unknown in part, commands, and what a rule can say of one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from attrs import define, field, frozen

from harnesses.approval import Category as Category

UNKNOWN = "\0"
"""Stands in a word for what is known only when it runs: a variable, the output of a command."""
UNREADABLE = "unreadable"
"""The category of what can not be judged, and is therefore treated as dangerous."""
MAX_PART = 200
"""Characters of a command that a finding shows."""


@frozen
class Finding:
    """Why a command needs an approval."""

    category: str
    """One of the nine, or `unreadable`."""
    why: str
    part: str
    """The part of the command that it is about, cut to `MAX_PART` characters."""


class Unreadable(Exception):
    """A command that can not be read: what it would do is not known."""


@frozen
class Word:
    """A word of a command after its quotes are taken off."""

    text: str
    """With `UNKNOWN` for each part that is not known."""
    splits: bool = False
    """Whether it may become several words, or none."""
    glob: bool = False
    """Whether it stands for the files that it matches."""
    disguised: bool = False
    """Whether it was written in escapes, such as `$'\\x72m'`."""
    inner: tuple[Command, ...] = ()
    """The commands whose output is part of it, or which it names: `$(…)`, `<(…)`."""

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text and not self.splits

    @property
    def may_be_option(self) -> bool:
        """Whether it may turn out to be an option, or several words."""
        return self.splits or self.text.startswith(UNKNOWN)

    def __str__(self) -> str:
        return self.text.replace(UNKNOWN, "…")


ANYTHING = Word(UNKNOWN, splits=True)


@define(eq=False)
class Redirect:
    """What a command reads from, or writes to, instead of the terminal. The body of a here-document comes lines later."""

    operator: str
    target: Word
    body: Word | None = None
    """The text of a here-document or a here-string."""

    @property
    def writes(self) -> bool:
        return ">" in self.operator and not (self.operator == ">&" and self.is_descriptor)

    @property
    def is_descriptor(self) -> bool:
        return self.target.text.rstrip("-").isdigit() or self.target.text == "-"


@frozen(eq=False)
class Command:
    """One simple command: a program, its words, and what it reads and writes."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    reads: Command | None = None
    """The command whose output it reads."""
    source: str = field(default="", repr=False)

    @property
    def part(self) -> str:
        text = " ".join((self.source or " ".join(map(str, self.words))).split())
        return text if len(text) <= MAX_PART else f"{text[: MAX_PART - 1]}…"


NO_COMMAND = Command()
"""Whatever feeds a pipe and is not one simple command."""


@frozen
class Found:
    """It does something that needs an approval."""

    category: str
    why: str


@frozen
class Changes:
    """It changes something, which is well unless it has to leave everything as it is."""

    kind: str
    why: str


@frozen
class Write:
    """It writes, moves or removes what is at a path."""

    path: Word
    how: str = "writes"


@frozen
class Run:
    """It runs another program."""

    words: tuple[Word, ...]
    guessed: bool = False
    """Whether these words may be data after all: then only what is certainly dangerous counts."""


@frozen
class Shell:
    """A shell reads this text."""

    text: Word


@frozen
class Code:
    """Another language's interpreter reads this text."""

    language: str
    text: Word


@frozen
class File:
    """It runs what is in a file."""

    path: Word
    language: str


Saying: TypeAlias = Found | Changes | Write | Run | Shell | Code | File
Sayings: TypeAlias = Iterator[Saying]


@frozen
class Input:
    """What a command can read from its standard input."""

    kind: str
    """`text` (known), `file`, `net` (from another machine), `none` (nothing was given), or `unknown`."""
    word: Word = ANYTHING
    """The text, or the path."""


@frozen
class Call:
    """A program and what it is called with, for a rule to look at."""

    program: str
    args: tuple[Word, ...]
    input: Input


Rule: TypeAlias = Callable[[Call], Sayings]
"""What is said of a program's call."""
DESTRUCTIVE, IN_PLACE = "destructive-shell", "in-place-edit"
"""Kinds of change that several rules tell of."""


def unclear(why: str) -> Found:
    """Say that it is not known what it does."""
    return Found(UNREADABLE, why)
