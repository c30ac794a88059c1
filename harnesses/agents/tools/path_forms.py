"""`PathForms`: the spellings of a path by which a tool policy judges it.

    link/../secret//x  ─┬─► as written, and without `.`, `..` and doubled slashes
                        ├─► below the working directory, by its text
                        └─► the same with links resolved: the file that a tool would open

Invariant: two paths that a tool would take to the same file have a form in common. Hard links are two files.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

from attrs import frozen

_LONGEST = 4_096
"""Characters of a path that a system takes."""
_MOST_TRIED = 50
"""Entries of a folder that are tried for one whose name has a case."""


@frozen
class PathForms:
    """The spellings of a path."""

    every: tuple[str, ...]
    """All of them: a rule that denies or asks applies if it matches any."""
    needed: tuple[tuple[str, ...], ...] = ()
    """Spellings of the same meaning in each group: a rule that allows applies if it matches one of every group."""
    ignores_case: bool = False
    """Whether the file system takes names that differ in case for the same."""


def forms_of_path(path: str, root: Path | None) -> PathForms:
    """Return the spellings of a path.

    Args:
        root: the working directory; None if there is none, so that only the text counts.
    """
    plain = posixpath.normpath(path) if path else path
    if root is None or not path or len(path) > _LONGEST or "\0" in path:
        return PathForms((path, plain), ((path,), (plain,)))
    try:
        by_text = _below(os.path.join(root, os.path.expanduser(path)), root)
        real = _below(os.path.realpath(os.path.join(root, os.path.expanduser(path))), root)
        is_folder = path.endswith("/") or os.path.isdir(real[-1])
    except (OSError, ValueError):
        return PathForms((path, plain), ((path,), (plain,)))
    known = dict.fromkeys((path, plain, *by_text, *real))
    slashed = tuple(f"{one}/" for one in known if one.strip("/.")) if is_folder else ()
    return PathForms((*known, *slashed), (by_text, real), _ignores_case(real[-1]))


def forms_below(path: str, root: Path) -> PathForms:
    """Return the spellings of a path that a walk below the working directory has found; folders end in a slash."""
    plain = path.rstrip("/")
    known = dict.fromkeys((path, plain, f"{root}/{path}", f"{root}/{plain}"))
    return PathForms(tuple(known), ((plain, f"{root}/{plain}"),), _ignores_case(str(root)))


def _below(path: str, root: Path) -> tuple[str, ...]:
    """Return an absolute path, normalised, after the same path relative to the working directory if it is below it."""
    whole = os.path.normpath(path)
    for top in dict.fromkeys((os.path.normpath(root), os.path.realpath(root))):
        if whole == top:
            return (".", whole)
        if whole.startswith(top.rstrip("/") + "/"):
            return (os.path.relpath(whole, top), whole)
    return (whole,)


def _ignores_case(path: str) -> bool:
    """Return whether the file system at a path takes names that differ in case for the same."""
    folder = path
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        with os.scandir(folder) as entries:
            tried = (one.name for _, one in zip(range(_MOST_TRIED), entries, strict=False))
            name = next((name for name in tried if name.swapcase() != name), "")
        if not name:
            folder, name = os.path.split(folder)
        other = os.path.join(folder, name.swapcase())
        return name.swapcase() != name and os.path.samefile(os.path.join(folder, name), other)
    except OSError:
        return False
