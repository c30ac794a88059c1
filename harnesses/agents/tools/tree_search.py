"""Searches the files of a folder with ripgrep, or with a program of our own where it is not installed.

Both run as processes that end at a time limit, honour `.gitignore`, follow no links and run nothing that the folder names.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from harnesses.agents.tools.confined_files import ConfinedFolder
from harnesses.agents.tools.tool import ToolError
from harnesses.agents.tools.working_tree import list_files
from harnesses.processes.bounded_command import run_bounded

_PROGRAM = Path(__file__).with_name("search_program.py")
_LIMIT_S = 30.0
_WIDTH = 300


class _Enough(Exception):
    """More lines were found than are wanted."""


async def search_tree(folder: ConfinedFolder, pattern: str, path: str, glob: str, *, ignore_case: bool, most: int) -> str:
    """Return the lines that match a regular expression, as `path:line:text`, at most `most` of them.

    Raises:
        ToolError: the pattern is not valid, takes too long, or the path is outside.
    """
    with folder.folder_of(path) as (descriptor, name, below):
        # The folder is opened; by this path, processes find it even if its own path leads elsewhere by now.
        cwd = f"/proc/{os.getpid()}/fd/{descriptor}" if sys.platform == "linux" else str(folder.root / below)
        if shutil.which("rg") is not None:
            command, input = _ripgrep(pattern, f"/{name}" if name else glob, ignore_case=ignore_case), None
        else:
            flags = "i" if ignore_case else ""
            command = [sys.executable, "-I", "-S", "-B", str(_PROGRAM), pattern, name or glob, flags]
            input = await _files(folder.root, below)
        found, error = await _collect(command, cwd, input, most)
    prefix = f"{below}/" if below else ""
    lines = [f"{prefix}{line.removeprefix('./')}" for line in found]
    if error:
        raise ToolError(error)
    cut = [f"[more than {most} lines match: narrow the pattern, the path or the glob]"] if len(lines) > most else []
    return "\n".join([*lines[:most], *cut]) or "nothing matches"


def _ripgrep(pattern: str, glob: str, *, ignore_case: bool) -> list[str]:
    options = ["--no-config", "--line-number", "--no-heading", "--with-filename", "--color=never", "--hidden", "--sort=path"]
    options += [f"--max-columns={_WIDTH}", "--max-columns-preview", "--no-require-git", "--no-messages", "--glob=!.git"]
    options += ["--ignore-case"] if ignore_case else []
    options += [f"--glob={glob}"] if glob else []
    return ["rg", *options, "-e", pattern, "--", "."]


async def _files(root: Path, below: str) -> bytes | None:
    """Return the files to search, relative to the folder; None to search all."""
    listed = await list_files(root, below or ".")
    if listed is None:
        return None
    prefix = os.fsencode(f"{below}/" if below else "")
    return b"\0".join(path.removeprefix(prefix) for path in listed) or None


async def _collect(command: list[str], cwd: str, input: bytes | None, most: int) -> tuple[list[str], str]:
    """Run a search; return the lines found, one more than `most` at most, and what is wrong."""
    lines, errors = list[str](), list[str]()

    def take(line: str) -> None:
        lines.append(line[: 4 * _WIDTH])
        if len(lines) > most:
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
        return [], "\n".join([*lines, *errors])[:1_000] or f"the search ended with code {ran.code}"
    return lines, ""
