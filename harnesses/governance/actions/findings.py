"""Turning what a command does in the end into findings: what is dangerous, and what changes anything. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from harnesses.governance.actions.judge import Judge, Judged
from harnesses.governance.actions.nouns import (
    UNKNOWN,
    UNREADABLE,
    Category,
    Changes,
    Finding,
    Found,
    Unreadable,
    Word,
    Write,
    unclear,
)
from harnesses.governance.actions.paths import from_root, is_nowhere, is_temporary, protected, within

MAX_FINDINGS = 20
"""Findings that are told of one command."""


def classify(command: str | Sequence[str], *, disposable: Collection[str] = (), root: str = "") -> tuple[Finding, ...]:
    """Return why a command needs an approval; nothing if it may run without.

    Args:
        command: text for a shell, or a program and its arguments, which no shell reads.
        disposable: names of folders that may be deleted with all that is in them, such as `build`, below where it works.
        root: the folder where it works, if it names paths from the top.
    """
    return _findings(_dangers(_judged(command, disposable), root))


def read_only_violations(command: str | Sequence[str]) -> tuple[Finding, ...]:
    """Return what a command would change, for whoever may only look; its category says by what kind of command.

    Everything that `classify` finds counts, and `destructive-shell` (also cp, ln, chmod), `in-place-edit`, `git-mutation`,
    `publish-deploy`, `sql-mutation`, `secret-redirect`, `workspace-redirect`, `powershell` and `install`. It may write to
    /dev/null and, by a redirection, into folders for temporary files.
    """
    return _findings(_changes(_judged(command, ())))


def protected_path(path: str, *, root: str = "") -> Finding | None:
    """Return why a path may not be written to without an approval; None if it may be."""
    found = protected(from_root(Word(path), root))
    return None if found is None else Finding(found[0], found[1], path[:200])


def _judged(command: str | Sequence[str], disposable: Collection[str]) -> Iterator[Judged]:
    judge = Judge(disposable)
    if isinstance(command, str):
        if not command.strip():
            yield Judged(Found(UNREADABLE, "there is no command"), "")
        elif UNKNOWN in command:
            yield Judged(Found(UNREADABLE, "there are control characters in it"), command.replace(UNKNOWN, "…")[:200])
        else:
            yield from judge.text(command)
        return
    words = [Word(text) for text in command]
    if not words or any(UNKNOWN in word.text for word in words):
        yield Judged(Found(UNREADABLE, "it has no program, or control characters"), "")
        return
    try:
        yield from judge.words(words, " ".join(command)[:200])
    except Unreadable as error:
        yield Judged(unclear(str(error)), " ".join(command)[:200])


def _protected(path: Word, folder: str, root: str) -> tuple[str, str] | None:
    if is_nowhere(path):
        return None
    return protected(from_root(path, root)) or protected(from_root(within(path, folder), root))


def _dangers(judged: Iterator[Judged], root: str) -> Iterator[Finding]:
    for one in judged:
        match one.done:
            case Found(category, why):
                yield Finding(str(category), why, one.part)
            case Write(path, how) if (found := _protected(path, one.folder, root)) is not None:
                yield Finding(str(found[0]), f"it {how} {path}: {found[1]}", one.part)
            case _:
                pass


def _changes(judged: Iterator[Judged]) -> Iterator[Finding]:
    for one in judged:
        match one.done:
            case Found(category, why):
                yield Finding(str(category), why, one.part)
            case Changes(kind, why):
                yield Finding(kind, why, one.part)
            case Write(path, how) if not is_nowhere(path):
                secret = _protected(path, one.folder, "")
                if secret is not None and secret[0] == Category.SECRET_WRITE:
                    yield Finding("secret-redirect", f"it {how} {path}", one.part)
                elif not is_temporary(path):
                    yield Finding("workspace-redirect", f"it {how} {path}", one.part)
            case _:
                pass


def _findings(found: Iterator[Finding]) -> tuple[Finding, ...]:
    return tuple(dict.fromkeys(found))[:MAX_FINDINGS]
