"""The nouns of judging a command: its words, what it consists of, and what is found in it. Pure."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from harnesses.effects.approval import Category as Category

HOLE = "\0"
"""Stands in a word for what is known only when it runs: a variable, the output of a command."""
UNREADABLE = "unreadable"
"""The category of what cannot be read, or is known only when it runs."""
UNKNOWN = "unknown"
"""The category of a program, verb or option that is not in the table of harmless ones."""
RUN_CODE = "run-code"
"""The category of what runs code of the workspace: tests, builds, scripts, installs, tools with a configuration."""
NETWORK = "network"
"""The category of what speaks with another machine and is not known to publish."""
SECRET_READ = "secret-read"
"""The category of what shows secrets, or files below the home directory, to whoever reads the output."""
MAX_PART = 200
"""Characters of a command that a finding shows."""


@frozen
class Finding:
    """Why a command needs an approval or a sandbox."""

    category: str
    """A `Category`, or one of this module's."""
    why: str
    part: str
    """The part of the command that it is about, cut to `MAX_PART` characters."""


class NotHarmless(Exception):
    """Why a command is not known to be harmless."""

    def __init__(self, why: str, category: str = UNKNOWN) -> None:
        super().__init__(why)
        self.category = category


class Unreadable(NotHarmless):
    """A command that cannot be read, or is known only when it runs."""

    def __init__(self, why: str) -> None:
        super().__init__(why, UNREADABLE)


@frozen
class Word:
    """A word of a command after its quotes are taken off."""

    text: str
    """With `HOLE` for each part that is not known."""
    splits: bool = False
    """Whether it may become several words, or none."""
    glob: bool = False
    """Whether it stands for the files that it matches."""

    @property
    def known(self) -> bool:
        """Whether it is exactly this word when the command runs."""
        return not self.splits and not self.glob and HOLE not in self.text

    @property
    def may_be_option(self) -> bool:
        """Whether it may turn out to be an option, or several words, when the command runs."""
        return self.splits or self.text.startswith(HOLE) or (self.glob and self.text[:1] in "*?[")

    def __str__(self) -> str:
        return self.text.replace(HOLE, "…")


@frozen
class Simple:
    """A simple command: a program and its words. Tests such as `[[ … ]]` are one too."""

    words: tuple[Word, ...]
    part: str
    settings: tuple[tuple[str, Word], ...] = ()
    """Variables that are set for it alone."""
    feeds: tuple[str, ...] = ()
    """The commands before it in its pipeline."""


@frozen
class Redirect:
    """A file that is read or written in place of standard input or output."""

    operator: str
    target: Word
    part: str


Item: TypeAlias = Simple | Redirect


def cut(text: str, most: int = MAX_PART) -> str:
    """Return a text in one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def names(words: str) -> frozenset[str]:
    """Return the names in a text."""
    return frozenset(words.split())
