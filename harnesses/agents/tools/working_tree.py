"""`WorkingTree`: keeps the files of an agent's directory as git trees, so that a turn continues after a crash with its edits.

    save()      working files ──► our index ──► tree, in our own repository, held by a ref
    restore()   tree ──► working files

Invariants: the repository and the index are ours: no file, setting or hook of the agent's repository is used or changed, and
contents are kept byte for byte. What a `.gitignore` file ignores is not kept, nor are nested repositories. A tree stays until
two later ones of the same directory are kept, or 30 days have passed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType

import trio
from attrs import define, field

from harnesses.agents.tools.tool import ToolError
from harnesses.files.safe_files import draft_of
from harnesses.files.state_folder import state_folder

_LIMIT_S = 120.0
_REFS = "refs/turns"
_KEPT_S = 30 * 86_400.0
MAX_TREE_FILES = 100_000
"""Files, new or changed, that one turn keeps; beyond it, files are not kept."""
MAX_TREE_BYTES = 1024**3
"""Bytes of them."""
_MOST_NAMES = 500
"""Paths given to one git command."""
_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.autocrlf", "false"),
    ("core.excludesFile", "/dev/null"),
    ("core.bigFileThreshold", "8m"),
    ("core.looseCompression", "1"),
    ("core.fsync", "none"),
    ("advice.addEmbeddedRepo", "false"),
    ("gc.auto", "0"),
)
_ATTRIBUTES = "* -text -filter -diff -ident -working-tree-encoding\n"
"""Overrides the attributes of the files, which could change contents or run programs."""


class NoTree:
    """Keeps nothing: for agents that have no directory, or one without a repository."""

    problem = ""

    async def __aenter__(self) -> NoTree:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def current(self) -> str:
        return ""

    async def save(self) -> str:
        return ""

    async def restore(self, tree: str) -> None:
        """Do nothing."""


@define(eq=False)
class WorkingTree:
    """Keeps the files of one directory. A context manager: its index is removed at the end."""

    _directory: Path
    _repository: Path
    _log: Callable[[str], object]
    _folder: str = field(init=False, default="")
    _last: str = field(init=False, default="")
    """The tree that the files have."""
    _saved: int = field(init=False, default=0)
    _has_links: bool = field(init=False, default=False)
    """Whether the index may name nested repositories."""
    _added: tuple[int, int] = field(init=False, default=(0, 0))
    """Files and bytes that were kept so far."""
    problem: str = field(init=False, default="")
    """Why the files are not kept at the moment, for the model; empty if they are."""

    @staticmethod
    async def of(directory: Path, log: Callable[[str], object]) -> WorkingTree | NoTree:
        """Return what keeps the files of a directory: nothing, unless it is the top of a git worktree and git is installed.

        Args:
            log: called with a line when files cannot be kept.
        """
        if not await trio.Path(directory / ".git").exists() or shutil.which("git") is None:
            return NoTree()
        return WorkingTree(directory, state_folder() / "tool-trees.git", log)

    async def __aenter__(self) -> WorkingTree:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._folder:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_remove, self._folder)

    async def current(self) -> str:
        """Return the tree that the files had after the last call; stores it if there was none. Empty if it cannot be kept."""
        return self._last or await self.save()

    async def save(self) -> str:
        """Store the files and return the id of their tree; empty if they cannot be kept, which is logged."""
        try:
            await self._open()
            await self._drop_nested()
            added = await self._measure()
            self._has_links = True
            await self._git("add", "--all", "--", ".")
            self._added = added
            await self._drop_nested()
            tree = (await self._git("write-tree")).strip()
            if tree != self._last:
                self._saved += 1
                await trio.to_thread.run_sync(self._hold, tree)
        except (ToolError, OSError) as error:
            self._log(f"[the files of {self._directory} are not kept: {error}]")
            self._last = ""
            self.problem = f"the files are not kept, and would be lost in a crash: {error}"
            return ""
        self._last, self.problem = tree, ""
        return tree

    async def _measure(self) -> tuple[int, int]:
        """Return how many files and bytes will have been kept with those that are new or changed.

        Raises:
            ToolError: they are too many.
        """
        listed = await self._run("ls-files", "--others", "--modified", "--exclude-standard", "-z")
        paths = [path for path in listed.split(b"\0") if path]
        size = await trio.to_thread.run_sync(_size_of, os.fsencode(self._directory), paths)
        files, size = self._added[0] + len(paths), self._added[1] + size
        if files > MAX_TREE_FILES or size > MAX_TREE_BYTES:
            raise ToolError(
                f"expected at most {MAX_TREE_FILES} new or changed files and {MAX_TREE_BYTES} bytes in a turn, got {files} "
                f"and {size}; delete what is not needed, or have .gitignore exclude it"
            )
        return files, size

    async def restore(self, tree: str) -> None:
        """Replace the files by those of a tree. Ignored files stay.

        Raises:
            ToolError: it is not known any more, or files cannot be replaced.
        """
        if await self.current() == tree:
            return
        await self._git("read-tree", "--reset", "-u", tree)
        self._last = tree

    async def _drop_nested(self) -> None:
        """Remove nested repositories from the index: git would look into them with their settings, which can run programs."""
        if self._has_links:
            entries = (await self._run("ls-files", "--stage", "-z")).split(b"\0")
            nested = [os.fsdecode(entry.partition(b"\t")[2]) for entry in entries if entry.startswith(b"160000 ")]
            for start in range(0, len(nested), _MOST_NAMES):
                await self._git("update-index", "--force-remove", "--", *nested[start : start + _MOST_NAMES])
        self._has_links = False

    def _hold(self, tree: str) -> None:
        ref = self._repository / _REFS / _id_of(self._directory) / str(self._saved % 2)
        ref.parent.mkdir(parents=True, exist_ok=True)
        with draft_of(ref) as draft:
            draft.write(f"{tree}\n".encode())

    async def files(self, below: str) -> list[bytes]:
        """Return the files below a folder that no `.gitignore` file ignores."""
        await self._open()
        found = await self._run("ls-files", "--others", "--exclude-standard", "-z", "--", below)
        return [path for path in found.split(b"\0") if path]

    async def _open(self) -> None:
        if self._folder:
            return
        await trio.to_thread.run_sync(_prepare, self._repository)
        self._folder = await trio.to_thread.run_sync(mkdtemp, ".index", "tool-tree-")

    async def _git(self, *arguments: str) -> str:
        return (await self._run(*arguments)).decode(errors="replace")

    async def _run(self, *arguments: str) -> bytes:
        settings = [word for name, value in _SETTINGS for word in ("-c", f"{name}={value}")]
        command = ["git", f"--git-dir={self._repository}", f"--work-tree={self._directory}", *settings, *arguments]
        with trio.move_on_after(_LIMIT_S):
            ran = await trio.run_process(
                command,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=self._directory,
                env=_environment(os.path.join(self._folder, "index")),
            )
            if ran.returncode == 0:
                return ran.stdout
            said = ran.stderr.decode(errors="replace").strip()[-500:]
            raise ToolError(f"git {arguments[0]} in {self._directory}: expected exit code 0, got {ran.returncode}: {said}")
        raise ToolError(f"git {arguments[0]} in {self._directory} took longer than {_LIMIT_S:g} s")


def _size_of(folder: bytes, paths: list[bytes]) -> int:
    size = 0
    for path in paths:
        with suppress(OSError):
            size += os.lstat(os.path.join(folder, path)).st_size
    return size


def _id_of(directory: Path) -> str:
    return sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:32]


def _environment(index: str) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_INDEX_FILE": index,
    }


def _prepare(repository: Path) -> None:
    """Create our repository, unless it exists; forget old trees once a day."""
    info = repository / "info"
    if not (repository / "HEAD").exists():
        repository.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _run_git(repository, "init", "--quiet", "--bare", "--template=", str(repository))
        repository.chmod(0o700)
    if not info.is_dir() or (info / "attributes").read_text() != _ATTRIBUTES:
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(_ATTRIBUTES)
    stamp = repository / "swept"
    if not stamp.exists() or time.time() - stamp.stat().st_mtime > 86_400:
        stamp.touch()
        _sweep(repository)


def _sweep(repository: Path) -> None:
    for ref in (repository / _REFS).glob("*/*"):
        with suppress(OSError):
            if time.time() - ref.stat().st_mtime > _KEPT_S:
                ref.unlink()
    _run_git(repository, "prune", "--expire=2.weeks.ago")


def _run_git(repository: Path, *arguments: str) -> None:
    command = ["git", f"--git-dir={repository}", *arguments]
    ran = subprocess.run(command, capture_output=True, check=False, env=_environment(""), cwd=repository.parent)
    if ran.returncode != 0:
        said = ran.stderr.decode(errors="replace").strip()[-500:]
        raise ToolError(f"git {arguments[0]} of {repository}: expected exit code 0, got {ran.returncode}: {said}")


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)


async def list_files(directory: Path, below: str) -> list[bytes] | None:
    """Return the files of a directory that no `.gitignore` file ignores; None if they cannot be listed."""
    tree = await WorkingTree.of(directory, lambda line: None)
    if isinstance(tree, NoTree):
        return None
    async with tree:
        try:
            return await tree.files(below)
        except (ToolError, OSError):
            return None
