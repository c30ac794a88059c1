"""Judges a command: it passes if everything it does is in the table of harmless commands; anything else is a finding.

text ──read_bash──► commands ──row of the table──► options ──check──► nothing: it passes
                                    └── no row, option or operand ──► a finding, with a well-known danger's name if it has
                                    one
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence

from attrs import define, evolve, field

from harnesses.guard.allowed_paths import Places
from harnesses.guard.bash_parser import read_bash
from harnesses.guard.command_model import (
    HOLE,
    NETWORK,
    RUN_CODE,
    SECRET_READ,
    UNKNOWN,
    Finding,
    Item,
    NotHarmless,
    Redirect,
    Simple,
    Unreadable,
    Word,
    cut,
    names,
)
from harnesses.guard.git_settings import starts
from harnesses.guard.harmless_table import dangers, row_of
from harnesses.guard.operand_checks import check

MAX_FINDINGS = 20
"""Maximum number of findings reported for one command."""
MAX_RUNS = 8
"""Maximum length of a chain of programs that run each other."""
_SIGNATURES = re.compile(r"(?s)--(?:format|pretty)\b.*(?:%G|%\((?:signature|\*signature))")
_SETTINGS = names("LANG LC_ALL LC_CTYPE LC_COLLATE LC_NUMERIC TZ NO_COLOR COLUMNS LINES TERM CI GIT_OPTIONAL_LOCKS")
"""Variables that a command may be given: they change only its language, time zone or appearance."""


def classify(
    command: str | Sequence[str], *, disposable: Collection[str] = (), root: str = "", allow: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return why a command needs an approval or a sandbox; empty if it is known to be harmless.

    Args:
        command: text for bash, or a program and its arguments, run without a shell.
        disposable: names of folders below the workspace that may be deleted with their contents, such as `build`.
        root: the workspace, in which it runs. If given, links, hooks and repository settings on disk are checked too.
        allow: categories that are not findings, such as `run-code` where tests may run without asking.
    """
    return tuple(one for one in _judge(command, disposable, root).findings if one.category not in allow)[:MAX_FINDINGS]


def read_only_violations(command: str | Sequence[str], *, root: str = "", allow: Collection[str] = ()) -> tuple[Finding, ...]:
    """Return findings for every change that a command may make, for read-only agents; the category names the kind of change.

    In addition to the findings of `classify`: `destructive-shell` (mkdir, cp, rm …), `in-place-edit`, `git-mutation` and
    `workspace-redirect`.
    """
    judgement = _judge(command, (), root)
    found = [one for one in judgement.findings if one.category not in allow]
    return tuple(dict.fromkeys((*found, *judgement.changes)))[:MAX_FINDINGS]


def commands_of(command: str | Sequence[str]) -> tuple[str, ...]:
    """Return the simple commands in a text, as parsed; empty if it cannot be parsed."""
    try:
        return tuple(item.part for item in _items(command) if isinstance(item, Simple))
    except Unreadable:
        return ()


def _items(command: str | Sequence[str]) -> tuple[Item, ...]:
    if isinstance(command, str):
        if not (items := read_bash(command)):
            raise Unreadable("there is no command")
        return items
    if not command or any(HOLE in word for word in command) or not command[0]:
        raise Unreadable("the command has no program, or contains control characters")
    return (Simple(tuple(Word(word) for word in command), cut(" ".join(command))),)


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
            items = _items(command)
        except Unreadable as error:
            self._find(error, text)
            return
        if re.search(r"\bdo\b.*\bcd\b", text, re.DOTALL):
            self.places.folders = {None}  # In a loop, `cd` may lead further each time.
        for item in items:
            try:
                if kind := self._redirect(item) if isinstance(item, Redirect) else self._command(item):
                    self.changes[Finding(kind, "the command changes files or the repository", item.part)] = None
            except NotHarmless as error:
                # Without the quotes, so that `r''m` is reported as what it is.
                self._find(error, " ".join(map(str, item.words)) if isinstance(item, Simple) else item.part or text)
        found = {one.category for one in self.findings}
        if found & {RUN_CODE, NETWORK, UNKNOWN}:
            # Data passed between parts is visible only in the whole command: `curl … | sh`, `sh <<EOF`.
            named = (one for one in dangers(text) if one[0] not in found | {RUN_CODE, NETWORK})
            self.findings |= {Finding(category, why, cut(text)): None for category, why in named}

    def _find(self, error: NotHarmless, text: str) -> None:
        """Add a finding; if the reason is only that the command is unknown, use the category of a well-known danger in it."""
        named = dangers(text) if error.category == UNKNOWN or isinstance(error, Unreadable) else ()
        added = [Finding(category, why, cut(text)) for category, why in named]
        if error.category != UNKNOWN or not added:
            added.append(Finding(str(error.category), str(error), cut(text)))
        self.findings |= dict.fromkeys(added)

    def _command(self, command: Simple) -> str:
        """Return the kind of change that a command makes; empty if it makes none."""
        for name, value in command.settings:
            plain = value.known and re.fullmatch(r"[\w.:+,@-]*", value.text)
            if not ((name in _SETTINGS and plain) or (name == "IFS" and command.words[:1] == (Word("read"),) and value.known)):
                raise NotHarmless(f"the command sets the variable {name}, which programs may read")
        return self._run(command, self.places, 0) if command.words else ""

    def _redirect(self, redirect: Redirect) -> str:
        operator, target = redirect.operator, redirect.target
        if operator in ("<<<", ">&-", "<&-") or (operator in (">&", "<&") and re.fullmatch(r"\d{1,2}|-", target.text)):
            return ""
        if operator == "<":
            self.places.check_read(target)
            return ""
        if operator not in (">", ">>", ">|", "&>", "&>>", ">&"):
            raise Unreadable(f"the redirection {operator!r} is not supported")
        self.places.check_write(target)
        return "" if target.text.startswith("/dev/") else "workspace-redirect"

    def _run(self, command: Simple, places: Places, depth: int) -> str:
        """Return the kind of change that a command makes. Raises `NotHarmless` if it is not known to be harmless."""
        words = list(command.words)
        if depth > MAX_RUNS or not words[0].known:
            raise Unreadable("the program is known only at run time")
        name = words[0].text
        if name == "git":
            words, places = _git_options(words, places)
        found_row = row_of(tuple(word.text if word.known else HOLE for word in words))
        if found_row is None:
            verb = f" {words[1]}" if len(words) > 1 and name in ("git", "docker", "gh") else ""
            raise NotHarmless(f"`{name}{verb}` is not in the table of harmless commands")
        row, length = found_row
        inner = evolve(command, words=tuple(words))

        def judge(words: Sequence[Word]) -> str:
            return self._run(evolve(inner, words=tuple(words)), places, depth + 1)

        kind = check(inner, words[length:], row, places, judge)
        if name == "git":
            _check_repository(words, places, changes=bool(kind))
        return kind


def _check_repository(words: Sequence[Word], places: Places, *, changes: bool) -> None:
    """Raise `NotHarmless` if git would show another repository, or run a program given by an option or the repository."""
    if any(folder is None or folder.startswith(("/", "..", "~")) for folder in places.folders):
        raise NotHarmless("git may show a repository outside the workspace", SECRET_READ)
    if _SIGNATURES.search(" ".join(word.text for word in words)):
        raise NotHarmless("git runs gpg to check signatures")
    for folder in places.folders_on_disk() or ():
        if why := starts(folder, changes=changes):
            raise NotHarmless(why, RUN_CODE)


def _git_options(words: list[Word], places: Places) -> tuple[list[Word], Places]:
    """Return the words of a git call without the options before its verb, and the places it works in."""
    rest = words[1:]
    while rest and rest[0].known and rest[0].text.startswith("-") and rest[0].text != "--version":
        if rest[0].text in ("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"):
            rest = rest[1:]
        elif rest[0].text == "-C" and len(rest) > 1:
            places = evolve(places, folders=set(places.folders))
            places.go(rest[1])
            rest = rest[2:]
        else:
            raise NotHarmless(f"option `{rest[0]}` of `git` is not in the table of harmless options")
    return [words[0], *rest], places
