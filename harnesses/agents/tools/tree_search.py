"""Searches the files of a folder with ripgrep, or with a program of our own where it is not installed.

Both run as processes that end at a time limit, honour `.gitignore`, follow no links and run nothing that the folder names.
Invariant: no line of a file that the policy hides is returned, and nothing in the result depends on one.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import trio
from attrs import evolve, field, frozen

from harnesses.agents.tools.confined_files import ConfinedFolder
from harnesses.agents.tools.tool import ToolError
from harnesses.agents.tools.working_tree import list_files
from harnesses.processes.bounded_command import run_bounded

_PROGRAM = Path(__file__).with_name("search_program.py")
_LIMIT_S = 30.0
_WIDTH = 300


class _Enough(Exception):
    """More lines were found than are wanted."""


@frozen
class Wanted:
    """What to look for."""

    pattern: str
    """A regular expression."""
    glob: str = ""
    """Which names of files, or paths below the folder, to search; empty for all."""
    ignore_case: bool = field(default=False, kw_only=True)
    most: int = field(default=200, kw_only=True)
    """Lines to return at most."""
    hides: Callable[[str], bool] = field(kw_only=True)
    """Returns whether a file, by its path below the working directory, is left out."""

    def has(self, path: str, below: str) -> bool:
        """Return whether a file is searched.

        Args:
            path: below the folder that is searched.
            below: that folder, with a slash at its end, empty for the working directory.
        """
        fits = not self.glob or fnmatch(path, self.glob) or fnmatch(os.path.basename(path), self.glob)
        return fits and "\n" not in path and not self.hides(f"{below}{path}")


async def search_tree(folder: ConfinedFolder, path: str, wanted: Wanted) -> str:
    """Return the lines that match, as `path:line:text`.

    Raises:
        ToolError: the pattern is not valid, takes too long, or the path is outside.
    """
    with folder.folder_of(path) as (descriptor, name, below):
        # The folder is opened; by this path, processes find it even if its own path leads elsewhere by now.
        cwd = f"/proc/{os.getpid()}/fd/{descriptor}" if sys.platform == "linux" else str(folder.root / below)
        prefix = f"{below}/" if below else ""
        if shutil.which("rg") is not None and not name:
            command, input = _ripgrep(wanted), None
        else:
            command = [sys.executable, "-I", "-S", "-B", str(_PROGRAM), wanted.pattern, "i" if wanted.ignore_case else ""]
            found = [os.fsencode(name)] if name else await _files(folder.root, below, cwd)
            input = await trio.to_thread.run_sync(_listed, found, prefix, evolve(wanted, glob="") if name else wanted)
        lines, error = await _collect(command, cwd, input, prefix, evolve(wanted, glob="") if name else wanted)
    if error:
        raise ToolError(error)
    most = wanted.most
    cut = [f"[more than {most} lines match: narrow the pattern, the path or the glob]"] if len(lines) > most else []
    return "\n".join([*lines[:most], *cut]) or "nothing matches"


def _ripgrep(wanted: Wanted) -> list[str]:
    """Return the command that searches a folder. Its globs only leave out: one that includes would override `.gitignore`."""
    options = ["--no-config", "--line-number", "--no-heading", "--with-filename", "--color=never", "--hidden", "--sort=path"]
    options += [f"--max-columns={_WIDTH}", "--max-columns-preview", "--no-require-git", "--no-messages", "--null"]
    options += ["--glob=!.git", "--glob=!*\n*", *(["--ignore-case"] if wanted.ignore_case else [])]
    return ["rg", *options, "-e", wanted.pattern, "--", "."]


async def _files(root: Path, below: str, cwd: str) -> list[bytes]:
    """Return the files below a folder that no `.gitignore` file ignores, relative to it."""
    listed = await list_files(root, below or ".")
    if listed is None:
        return await trio.to_thread.run_sync(_walk, cwd)
    prefix = os.fsencode(f"{below}/" if below else "")
    return [path.removeprefix(prefix) for path in listed]


def _walk(top: str) -> list[bytes]:
    files = list[bytes]()
    for folder, folders, names, _ in os.fwalk(f"{top}/.", follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name != ".git")
        files += (os.fsencode(os.path.relpath(os.path.join(folder, name), top)) for name in sorted(names))
    return files


def _listed(files: list[bytes], prefix: str, wanted: Wanted) -> bytes:
    """Return the files to search as input of the program. What is left out is not searched: its text cannot be timed."""
    return b"".join(path + b"\0" for path in files if wanted.has(os.fsdecode(path), prefix))


async def _collect(command: list[str], cwd: str, input: bytes | None, prefix: str, wanted: Wanted) -> tuple[list[str], str]:
    """Run a search; return the lines found, one more than wanted at most, and what is wrong."""
    lines, errors = list[str](), list[str]()
    has = cache(wanted.has)

    def take(line: str) -> None:
        path, separator, text = line.partition("\0")
        path = path.removeprefix("./")
        if separator and has(path, prefix):
            lines.append(f"{prefix}{path}:{text}"[: 4 * _WIDTH])
        elif not separator:
            errors.append(line)
        if len(lines) > wanted.most:
            raise _Enough

    try:
        ran = await run_bounded(
            command, limit_s=_LIMIT_S, tail_bytes=0, cwd=cwd, input=input, on_line=take, on_error_line=errors.append
        )
    except _Enough:
        return lines, ""
    if ran.code is None:
        return [], f"the search took longer than {_LIMIT_S:g} s: use a simpler pattern, or a narrower path or glob"
    if ran.code > 1 or ran.code < 0:
        return [], "\n".join(errors)[:1_000] or f"the search ended with code {ran.code}"
    return lines, ""
