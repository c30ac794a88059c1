"""Judging a command: it passes if all it does is in the table of harmless commands; anything else is a finding.

text ──read_bash──► commands ──row of the table──► options ──check──► nothing: it passes
                                    └── no row, option or operand ──► a finding, with a well-known danger's name if it has one
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence

from attrs import define, evolve, field

from harnesses.governance.actions.bash import read_bash
from harnesses.governance.actions.checks import CHECKS, RAW, Use
from harnesses.governance.actions.dangers import dangers
from harnesses.governance.actions.harmless import row_of
from harnesses.governance.actions.nouns import (
    HOLE,
    NETWORK,
    RUN_CODE,
    UNKNOWN,
    UNREADABLE,
    Assignment,
    Finding,
    Item,
    Redirect,
    Simple,
    Unreadable,
    Word,
    cut,
    names,
)
from harnesses.governance.actions.options import NotHarmless, Read, read_options
from harnesses.governance.actions.paths import Places
from harnesses.governance.actions.repository import starts

MAX_FINDINGS = 20
"""Findings that are told of one command."""
MAX_RUNS = 8
"""Programs that run each other."""
_BINARIES = re.compile(r"/(?:usr/)?bin/([\w.\[-]+)")
_SETTINGS = names("LANG LC_ALL LC_CTYPE LC_COLLATE LC_NUMERIC TZ NO_COLOR COLUMNS LINES TERM CI GIT_OPTIONAL_LOCKS")
"""Variables that a command may be given: they change its language, its clock or how it looks."""


def classify(
    command: str | Sequence[str], *, disposable: Collection[str] = (), root: str = "", allow: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return why a command needs an approval or a sandbox; nothing if it is known to be harmless.

    Args:
        command: text for bash, or a program and its arguments, which no shell reads.
        disposable: names of folders that may be deleted with all that is in them, such as `build`, below the workspace.
        root: the workspace, where it runs. With it, links, hooks and the repository's settings on disk are looked at too.
        allow: categories that are not findings, such as `run-code` where tests may run without asking.
    """
    return tuple(one for one in _judge(command, disposable, root).findings if one.category not in allow)[:MAX_FINDINGS]


def read_only_violations(command: str | Sequence[str], *, root: str = "", allow: Collection[str] = ()) -> tuple[Finding, ...]:
    """Return what a command may change, for whoever may only look; its category says by what kind of command.

    Everything that `classify` finds counts, and `destructive-shell` (mkdir, cp, rm …), `in-place-edit`, `git-mutation` and
    `workspace-redirect`, which it lets pass.
    """
    judgement = _judge(command, (), root)
    found = [one for one in judgement.findings if one.category not in allow]
    return tuple(dict.fromkeys((*found, *judgement.changes)))[:MAX_FINDINGS]


def commands_of(command: str | Sequence[str]) -> tuple[str, ...]:
    """Return the simple commands in a text, as they were read; nothing if it cannot be read."""
    if not isinstance(command, str):
        return (cut(" ".join(command)),)
    try:
        return tuple(item.part for item in read_bash(command) if isinstance(item, Simple))
    except Unreadable:
        return ()


def _judge(command: str | Sequence[str], disposable: Collection[str], root: str) -> _Judgement:
    judgement = _Judgement(Places(os.path.normpath(root) if root else "", disposable))
    judgement.judge(command)
    return judgement


@define
class _Judgement:
    places: Places
    findings: dict[Finding, None] = field(factory=dict[Finding, None])
    changes: dict[Finding, None] = field(factory=dict[Finding, None])

    def judge(self, command: str | Sequence[str]) -> None:
        text = command if isinstance(command, str) else " ".join(command)
        try:
            items = read_bash(command) if isinstance(command, str) else _of_words(command)
        except Unreadable as error:
            self._find(UNREADABLE, str(error), text)
            return
        if not items:
            self._find(UNREADABLE, "there is no command", text)
        for item in items:
            try:
                if change := self._item(item):
                    kind, why = change
                    self.changes[Finding(kind, why, item.part)] = None
            except NotHarmless as error:
                self._find(error.category, str(error), _whole(item, text))
        found = {one.category for one in self.findings}
        if isinstance(command, str) and found & {RUN_CODE, NETWORK, UNKNOWN}:
            # What one part hands to another is seen in the whole only: `curl … | sh`, `sh <<EOF`.
            for category, why in dangers(text):
                if category not in found | {RUN_CODE, NETWORK}:
                    self.findings[Finding(category, why, cut(text))] = None

    def _find(self, category: str, why: str, text: str) -> None:
        named = self._name(text) if category in (UNKNOWN, UNREADABLE) else False
        if category == UNREADABLE or not named:
            self.findings[Finding(str(category), why, cut(text))] = None

    def _name(self, text: str) -> bool:
        found = list(dangers(text))
        for category, why in found:
            self.findings[Finding(category, why, cut(text))] = None
        return bool(found)

    def _item(self, item: Item) -> tuple[str, str] | None:
        """Return the kind of change that something makes, and why; None if it makes none."""
        match item:
            case Assignment():
                return None
            case Redirect(operator, target, _):
                return self._redirect(operator, target)
            case Simple(words, _, settings):
                for name, value in settings:
                    plain = value.known and re.fullmatch(r"[\w.:+,@-]*", value.text)
                    if not ((name in _SETTINGS and plain) or (name == "IFS" and words[:1] == (Word("read"),) and value.known)):
                        raise NotHarmless(f"it sets the variable {name}, which programs may read")
                kind = self._simple(item, self.places, 0) if words else ""
                return (kind, f"`{words[0]}` changes files or the repository") if kind else None

    def _redirect(self, operator: str, target: Word) -> tuple[str, str] | None:
        if operator in ("<<<", ">&-", "<&-") or (operator in (">&", "<&") and re.fullmatch(r"\d{1,2}|-", target.text)):
            return None
        if operator == "<":
            found = self.places.may_not_read(target)
        elif operator in (">", ">>", ">|", "&>", "&>>", ">&"):
            found = self.places.may_not_write(target)
        else:
            found = (UNREADABLE, f"the redirection {operator!r} is not read")
        if found:
            raise NotHarmless(found[1], found[0])
        return None if operator == "<" or target.text.startswith("/dev/") else ("workspace-redirect", f"it writes {target}")

    def _simple(self, command: Simple, places: Places, depth: int) -> str:
        """Return the kind of change that a command makes; raise `NotHarmless` if it is not known to be harmless."""
        words = list(command.words)
        if depth > MAX_RUNS or not words[0].known:
            raise NotHarmless("which program it runs is known only when it runs", UNREADABLE)
        if found := _BINARIES.fullmatch(words[0].text):
            words[0] = Word(found[1])
        name = words[0].text
        if name == "git":
            words, places = _git_options(words, places)
        if name == "command" and len(words) > 1 and not words[1].text.startswith("-"):
            return self._simple(evolve(command, words=tuple(words[1:])), places, depth + 1)
        if name == "rm" and places.disposable and _drops_disposable(words[1:], places):
            return "destructive-shell"
        found_row = row_of(tuple(word.text if word.known else HOLE for word in words))
        if found_row is None:
            verb = f" {words[1]}" if len(words) > 1 and name in ("git", "docker", "gh") else ""
            raise NotHarmless(f"`{name}{verb}` is not in the table of harmless commands")
        row, length = found_row
        rest = words[length:]
        read = Read(operands=list(rest)) if row.operands in RAW else read_options(name, row, rest)
        for file in read.files:
            if problem := places.may_not_read(file):
                raise NotHarmless(problem[1], problem[0])
        inner = evolve(command, words=(Word(name), *words[1:]))

        def judge(others: Sequence[Word]) -> str:
            return self._simple(evolve(inner, words=tuple(others), settings=()), places, depth + 1)

        kind = CHECKS[row.operands](Use(inner, rest, read, places, judge)) or row.changes
        if name == "git":
            for folder in places.folders_on_disk() or ():
                if why := starts(folder, changes=bool(kind)):
                    raise NotHarmless(why, RUN_CODE)
        return kind


def _drops_disposable(words: Sequence[Word], places: Places) -> bool:
    """Return whether `rm` deletes nothing but folders that may go."""
    options = [word for word in words if word.text.startswith("-")]
    folders = [word for word in words if word not in options]
    return all(re.fullmatch("-[rRfv]+", word.text) for word in options) and bool(folders) and all(map(places.may_go, folders))


def _git_options(words: list[Word], places: Places) -> tuple[list[Word], Places]:
    """Return a call of git without the options before its verb, and the places that it works in."""
    rest = words[1:]
    while rest and rest[0].known and rest[0].text.startswith("-"):
        if rest[0].text in ("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"):
            rest = rest[1:]
        elif rest[0].text == "-C" and len(rest) > 1:
            places = evolve(places, folders={None} if not rest[1].known else set(places.folders))
            places.go(rest[1])
            rest = rest[2:]
        elif rest[0].text == "--version" and len(rest) == 1:
            rest = [Word("version")]
        else:
            raise NotHarmless(f"option `{rest[0]}` of `git` is not in the table of harmless ones")
    return [words[0], *rest], places


def _of_words(words: Sequence[str]) -> tuple[Item, ...]:
    if not words or any(HOLE in word for word in words) or not words[0]:
        raise Unreadable("it has no program, or control characters")
    return (Simple(tuple(Word(word) for word in words), cut(" ".join(words))),)


def _whole(item: Item, text: str) -> str:
    """Return the words of a command without quotes in them, so that `r''m` is told as what it is."""
    if isinstance(item, Simple) and item.words:
        return " ".join(map(str, item.words))
    return item.part or text
