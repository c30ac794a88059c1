"""What a validator gets to see: a private copy of the workspace, by an object that can read it and nothing else.

    workspace ──copied──► copy ──► ReadOnly: read, look, run ──► the verdict
                            │                  └── run: in walls where the copy is read-only, else in a copy of the copy
                            └── hashed before and after: a verdict by who has changed something is void

The laws: nothing that a validator is handed leads to the workspace; what it runs is noted by us, with its exit code; and a
change of the copy, or of what a command ran in, is noted too.

An object of Python is no wall against Python. A validator that is not trusted is to be a program: a `CommandAgent` with a
sandbox works on a copy of its own, which is looked at in the same way.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import cast

import trio
from attrs import frozen

from harnesses.features.texts import inert, last_part
from harnesses.pipeline.errors import PipelineInvalid
from harnesses.pipeline.threads import aside
from harnesses.process import run_bounded
from harnesses.secrets import redact_text

UNSEEN = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".venv", "node_modules")
"""Directories that are not copied, and do not count as a change: caches, and what is installed."""
MAX_TAIL = 2_000
"""Characters of the output of a command that are kept, the last ones."""
MAX_READ_BYTES = 1_000_000
MAX_COMMANDS = 50
"""Commands that one validator may run."""
MAX_COPY_BYTES = 500_000_000
"""Bytes that are copied to be judged, by what files say that they are: a sparse one would become as large as it says."""
_COPY_TRIES = 3
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "VIRTUAL_ENV")


@frozen(kw_only=True)
class Seen:
    """A command that was run for a validator, as we saw it."""

    command: tuple[str, ...]
    code: int | None
    """None if it took too long."""
    tail: str
    changed: tuple[str, ...] = ()
    """Files that it has changed: then it proves nothing."""
    stage: str = ""
    """The stage whose description asks for it; empty if a validator has."""
    missing: str = ""
    """What its output was to match, and did not."""

    @property
    def good(self) -> bool:
        """Whether it ended with 0, changed nothing, and said what was expected."""
        return self.code == 0 and not self.changed and not self.missing

    def words(self) -> str:
        """Return what was seen, in a line."""
        how = "killed at its time limit" if self.code is None else f"exit code {self.code}"
        also = f", and changed {', '.join(self.changed[:3])}" if self.changed else ""
        said = f", and its output does not match {self.missing[:100]!r}" if self.missing else ""
        return f"{' '.join(self.command)[:300]}: {how}{also}{said}"


class Copy:
    """A private copy of a workspace, for those who look after it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self._folder = folder
        self._before = digests(root)

    def changed(self) -> tuple[str, ...]:
        """Return the files that are not any more what they were copied as. Reads all of them."""
        return differences(self._before, digests(self.root))

    def another(self, name: str) -> Copy:
        """Return a copy of the copy."""
        place = self._folder / name
        copy_tree(self.root, place)
        return Copy(place, self._folder)

    def forget(self, name: str) -> None:
        """Remove a copy of the copy."""
        remove_copy(self._folder / name)


class ReadOnly:
    """What a validator has in its hands: it can look, and run commands; it can change nothing."""

    __slots__ = ("_look", "_note", "_run")

    def __init__(self, copy: Copy, note: Callable[[Seen], None], *, limit_s: float) -> None:
        self._look = _looking(copy)
        self._run = _running(copy, limit_s)
        self._note = note

    def files(self, below: str = ".") -> tuple[str, ...]:
        """Return the paths of all files below a directory, sorted."""
        return self._look[0](below)

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file, at most a megabyte.

        Raises:
            OSError: it can not be read: it is not there, or leads out.
        """
        return self._look[1](path)

    def read_text(self, path: str) -> str:
        """Return the content of a file as text; what is no UTF-8 is replaced."""
        return self.read_bytes(path).decode("utf-8", errors="replace")

    def sha256(self, path: str) -> str:
        """Return the hash of what `read_bytes` gives."""
        return hashlib.sha256(self.read_bytes(path)).hexdigest()

    async def run(self, command: Sequence[str], *, expects: str = "") -> Seen:
        """Run a command where nothing can be changed, or nothing that counts, and return how it ended. It is noted by us.

        Args:
            expects: a regular expression that has to be found in the last of its output, line by line.
        """
        seen = await self._run(tuple(command), expects)
        self._note(seen)
        return seen


def _looking(copy: Copy) -> tuple[Callable[[str], tuple[str, ...]], Callable[[str], bytes]]:
    root = copy.root

    def files(below: str) -> tuple[str, ...]:
        within = _inside(root, below)
        return tuple(sorted(path for path, _ in _places(within, os.path.relpath(within, root))))

    def read(path: str) -> bytes:
        handle = os.open(_inside(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FileNotFoundError(f"{path!r:.200} is no regular file")
            content = file.read(MAX_READ_BYTES + 1)
        if len(content) > MAX_READ_BYTES:
            raise OSError(f"{path!r:.200} is too large: expected at most {MAX_READ_BYTES} bytes")
        return content

    return files, read


def _inside(root: Path, path: str) -> Path:
    place = Path(os.path.realpath(root / path))
    if "\0" in path or not place.is_relative_to(os.path.realpath(root)):
        raise FileNotFoundError(f"{path!r:.200} is not inside the copy: expected a path below it")
    return place


def _running(copy: Copy, limit_s: float) -> Callable[[tuple[str, ...], str], Awaitable[Seen]]:
    number = 0

    async def run(command: tuple[str, ...], expects: str) -> Seen:
        nonlocal number
        number += 1
        if number > MAX_COMMANDS:
            raise PipelineInvalid(f"a validator has run {MAX_COMMANDS} commands: expected fewer; look at less")
        if not command or not all(isinstance(cast(object, word), str) and "\0" not in word for word in command):
            raise PipelineInvalid(f"command: expected words, was {command!r:.200}")
        return await run_seen(copy, command, limit_s=limit_s, name=f"run-{number}", expects=expects)

    return run


async def run_seen(
    copy: Copy, command: Sequence[str], *, limit_s: float, name: str, stage: str = "", expects: str = ""
) -> Seen:
    """Run a command in walls in which the copy is read-only, or, where there are none, in a copy of it that is compared."""
    walled = await aside(has_walls)
    ground = copy if walled else await aside(copy.another, name)
    try:
        filled = within_walls(command, ground.root) if walled else list(command)
        ran = await run_bounded(
            filled, limit_s=limit_s, cwd=ground.root, env=_environment(ground.root), may_gain_privileges=walled
        )
        changed = await aside(ground.changed)
    finally:
        if not walled:
            with trio.CancelScope(shield=True):
                await aside(copy.forget, name)
    tail = last_part(inert(redact_text(ran.tail)), MAX_TAIL)
    words = tuple(redact_text(word) for word in command)
    missing = "" if re.search(expects, tail, re.MULTILINE) else expects
    return Seen(command=words, code=ran.code, tail=tail, changed=changed, stage=stage, missing=missing)


def within_walls(command: Sequence[str], directory: Path) -> list[str]:
    """Return the command that runs another where all of the machine is read-only, /tmp is private, and there is no network."""
    wall = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--cap-drop"]
    wall += ["ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"]
    place = str(directory)
    for path in _below_tmp():
        wall += ["--ro-bind", path, path]
    return [*wall, "--ro-bind", place, place, "--setenv", "TMPDIR", "/tmp", "--chdir", place, "--", *command]


@cache
def _below_tmp() -> tuple[str, ...]:
    """Return where programs are that the private /tmp would hide."""
    path = [os.path.realpath(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    places = [os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), *path]
    return tuple(dict.fromkeys(one for one in places if one.startswith("/tmp/") and os.path.isdir(one)))


@cache
def has_walls() -> bool:
    """Return whether bubblewrap is installed, and works here."""
    if shutil.which("bwrap") is None:
        return False
    tried = within_walls(["true"], Path(tempfile.gettempdir()) / "..")
    try:
        return subprocess.run(tried, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name in _KEPT if (value := os.environ.get(name)) is not None}
    # Caches would be changes; and a module of the work must not take the place of what judges it (`unittest.py`).
    own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "-p no:cacheprovider", "PYTHONSAFEPATH": "1"}
    return {**kept, "PWD": str(directory), **own}


def begin_copy(workspace: Path, folder: Path, unseen: Iterable[str] = (), most: int = MAX_COPY_BYTES) -> Copy:
    """Copy a workspace to a folder of our own.

    Raises:
        PipelineInvalid: it is larger than that; with the largest file.
    """
    root = folder / "copy"
    _check_size(workspace, unseen, most)
    for tries in range(_COPY_TRIES, -1, -1):
        try:
            copy_tree(workspace, root, unseen)
            break
        except (shutil.Error, FileNotFoundError):
            # Others are at work: a directory that was there a moment ago is gone.
            if not tries:
                raise
            remove_copy(root)
    return Copy(root, folder)


def copy_tree(source: Path, target: Path, unseen: Iterable[str] = ()) -> None:
    """Copy what is in a directory, links as links; pipes, sockets and the like are left out."""
    left_out = _left_out(unseen)

    def ignored(directory: str, names: list[str]) -> set[str]:
        below = os.path.relpath(directory, source)
        return {
            name
            for name in names
            if name in UNSEEN
            or os.path.normpath(os.path.join(below, name)) in left_out
            or not _is_plain(os.path.join(directory, name))
        }

    shutil.copytree(source, target, symlinks=True, ignore=ignored, copy_function=_copied)


def _left_out(unseen: Iterable[str]) -> set[str]:
    return {os.path.normpath(path) for path in unseen}


def _check_size(workspace: Path, unseen: Iterable[str], most: int) -> None:
    left_out, total, largest = _left_out(unseen), 0, (0, "")
    for path, place in _places(workspace):
        if any(path == one or path.startswith(f"{one}/") for one in left_out):
            continue
        with suppress(OSError):
            found = os.lstat(place)
            if stat.S_ISREG(found.st_mode):
                total, largest = total + found.st_size, max(largest, (found.st_size, path))
    if total > most:
        raise PipelineInvalid(
            f"the workspace is too large to be judged in a copy: expected at most {most} bytes, was {total}; the largest file "
            f"is {largest[1]!r:.200}, {largest[0]}: remove it, name it in `unseen`, or allow more by `max_copy_bytes`"
        )


def _copied(source: str, target: str) -> None:
    # Others are at work, and what they have removed is not there.
    with suppress(FileNotFoundError):
        shutil.copy2(source, target, follow_symlinks=False)


def _is_plain(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def remove_copy(folder: Path) -> None:
    """Remove a copy, and all that was made of it."""
    shutil.rmtree(folder, ignore_errors=True)


def digests(root: Path) -> dict[str, str]:
    """Return what every file and link below a directory is, by path; caches are left out."""
    return {path: _digest(place) for path, place in _places(root)}


def _places(root: Path, prefix: str = ".") -> Iterator[tuple[str, str]]:
    """Yield the path of every file and link below a directory, and where it is; caches are left out."""
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in UNSEEN)
        for name in [*files, *(name for name in names if os.path.islink(os.path.join(directory, name)))]:
            place = os.path.join(directory, name)
            yield os.path.normpath(os.path.join(prefix, os.path.relpath(place, root))), place


def _digest(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return f"link {os.readlink(path)}"
        if not stat.S_ISREG(mode):
            return f"mode {stat.S_IFMT(mode)}"
        with open(path, "rb") as file:
            return f"{mode & 0o111:o} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        return f"unreadable: {error.strerror}"


def differences(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    """Return the paths at which two trees differ."""
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))
