"""Value types of the guard: words, commands, redirections and findings. Pure."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from harnesses.effects.approval import Category as Category

HOLE = "\0"
"""Placeholder in a word for a part known only at run time: a variable, the output of a command."""
UNREADABLE = "unreadable"
"""Category of commands that cannot be parsed, or depend on values known only at run time."""
UNKNOWN = "unknown"
"""Category of programs, verbs and options that are not in the table of harmless ones."""
RUN_CODE = "run-code"
"""Category of commands that run code of the workspace: tests, builds, scripts, installs, tools with a configuration."""
NETWORK = "network"
"""Category of commands that communicate with another machine and are not known to publish."""
SECRET_READ = "secret-read"
"""Category of commands that output secrets, or files below the home directory."""
HELD = frozenset({UNKNOWN, UNREADABLE, RUN_CODE, NETWORK})
"""Categories contained by any sandbox, with or without network: such commands may do anything."""
HELD_WITHOUT_NETWORK = HELD | {Category.PUBLISH, Category.DEPLOY, Category.REMOTE_EXEC}
"""Categories contained by a sandbox without network. The others affect what is writable in it: files, branches, secrets."""
SHELL = ("bash", "--noprofile", "--norc", "-p", "-c")
"""Shell for commands given as text, which are classified as bash parses them. `-p` keeps bash from reading start-up files."""
MAX_PART = 200
"""Maximum number of characters of a command shown in a finding."""


@frozen
class Finding:
    """Why a command needs an approval or a sandbox."""

    category: str
    """A `Category`, or one of the categories in this module."""
    why: str
    part: str
    """The part of the command it concerns, cut to `MAX_PART` characters."""


class NotHarmless(Exception):
    """A command is not known to be harmless."""

    def __init__(self, why: str, category: str = UNKNOWN) -> None:
        super().__init__(why)
        self.category = category


class Unreadable(NotHarmless):
    """A command cannot be parsed, or depends on values known only at run time."""

    def __init__(self, why: str) -> None:
        super().__init__(why, UNREADABLE)


@frozen
class Word:
    """A word of a command, with quotes removed."""

    text: str
    """The text, with `HOLE` for each unknown part."""
    splits: bool = False
    """Whether it may expand to several words, or none."""
    glob: bool = False
    """Whether it is a glob pattern."""

    @property
    def known(self) -> bool:
        """Whether the command gets exactly this word at run time."""
        return not self.splits and not self.glob and HOLE not in self.text

    @property
    def may_be_option(self) -> bool:
        """Whether it may become an option, or several words, at run time."""
        return self.splits or self.text.startswith(HOLE) or (self.glob and self.text[:1] in "*?[")

    def __str__(self) -> str:
        return self.text.replace(HOLE, "…")


@frozen
class Simple:
    """A simple command: a program and its words. Tests such as `[[ … ]]` count as one too."""

    words: tuple[Word, ...]
    part: str
    settings: tuple[tuple[str, Word], ...] = ()
    """Variables set for this command only."""
    feeds: tuple[str, ...] = ()
    """The preceding commands of its pipeline."""


@frozen
class Redirect:
    """A redirection of standard input or output from or to a file."""

    operator: str
    target: Word
    part: str


Item: TypeAlias = Simple | Redirect


def cut(text: str, most: int = MAX_PART) -> str:
    """Return a text as one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def names(words: str) -> frozenset[str]:
    """Split a text into a set of names."""
    return frozenset(words.split())
