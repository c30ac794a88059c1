"""The repository in which commits are made and validated, out of reach of agents and of the user's checkout.

Invariants: every object in it was hashed here, from files or when fetched; no filter, hook or attribute from elsewhere
applies; a worktree is at a path never used before and holds only the files of its commit, without `.git`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import trio
from attrs import field, frozen

from harnesses.coding.candidate import SUBMODULE, Change
from harnesses.coding.git import Git, GitError
from harnesses.coding.workspace import is_directory, make_empty, nested_repositories, remove, remove_sync, unused_path
from harnesses.data.newest import keep_newest

_Entries: TypeAlias = dict[str, tuple[str, str]]
"""By path: git's mode and the object's name."""
_MOST_KNOWN = 3
_MOST_BLOB, _MOST_BLOBS = 200_000, 4_000_000
"""Bytes of a file that is kept in memory, and of all of them."""
_MOST_PATCH = 8_000_000
MOST_DIFF = 50_000
"""Characters of a patch that are kept: with its JSON escapes it is small enough to be stored in its record."""
_SHA1 = 40
"""Characters of the name of an object, if that is its SHA-1."""
_CONFIG = "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = true\n{extensions}"
_SHA256 = "[extensions]\n\tobjectformat = sha256\n"
_LEFTOVERS = "__pycache__/\n*.py[co]\n.pytest_cache/\n.mypy_cache/\n.ruff_cache/\n"
"""Files that tools leave behind, which are not part of the work."""
_ATTRIBUTES = "* -text !eol -crlf -ident -filter !working-tree-encoding\n"
"""Takes precedence over any `.gitattributes`: files are read and written byte for byte."""


class Uncommittable(Exception):
    """The files an agent left cannot be committed."""


@frozen
class JudgeRepository:
    """A bare repository of our own, which implements `Checkouts`."""

    git: Git
    folder: Path
    """Directory for worktrees and indexes."""
    _trees: dict[str, str] = field(factory=dict[str, str], init=False, eq=False, repr=False)
    _listed: dict[str, _Entries] = field(factory=dict[str, _Entries], init=False, eq=False, repr=False)
    """Cached listings by commit, whose files never change; rechecks at one commit share them."""
    _blobs: dict[str, bytes] = field(factory=dict[str, bytes], init=False, eq=False, repr=False)
    """Cached contents by the name of the object, which is their hash."""

    async def upkeep(self, format: str) -> None:
        """Create the repository if it is missing, and restore its settings.

        Args:
            format: hash of object names: `sha1` or `sha256`.
        """
        directory = self.git.directory
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (directory / "HEAD").is_file():
            await make_bare(self.git, format)
        reset_settings(directory, format)

    async def take(self, source: Path, *refs: str) -> None:
        """Fetch commits, by ref or by name, from another repository. Each object is hashed on arrival."""
        await fetch(self.git, source, *refs)

    async def has(self, commit: str) -> bool:
        """Return whether the repository has a commit."""
        code, _, _ = await self.git.ask("cat-file", "-e", f"{commit}^{{commit}}")
        return code == 0

    async def contains(self, commit: str, other: str) -> bool:
        """Return whether another commit is in the history of a commit."""
        code, _, _ = await self.git.ask("merge-base", "--is-ancestor", other, commit)
        return code == 0

    async def tree_of(self, commit: str) -> str:
        """Return the name of a commit's tree."""
        if commit not in self._trees:
            tree = await self.git.line("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")
            keep_newest(self._trees, commit, tree, _MOST_KNOWN)
            return tree
        return self._trees[commit]

    async def empty_commit(self) -> str:
        """Return the first commit for an empty repository; always the same one."""
        tree = (await self.git.run("mktree")).decode().strip()
        made = await self.git.run("commit-tree", tree, "-m", "Begin", date="@0 +0000")
        return made.decode().strip()

    async def commit(self, tree: str, *parents: str, message: str) -> str:
        """Return a new commit of a tree in this repository."""
        given = [argument for parent in parents for argument in ("-p", parent)]
        made = await self.git.run("commit-tree", tree, *given, "-F", "-", stdin=message.encode())
        return made.decode().strip()

    async def lay_out(self, commit: str, directory: Path, index: Path) -> None:
        """Write the files of a commit into an empty directory, and their metadata into an index."""
        await self.git.run("read-tree", "--reset", "-u", "--end-of-options", commit, tree=directory, index=index)

    async def snapshot(self, directory: Path, index: Path, base: str) -> str:
        """Return the name of the tree of a directory: all files except ignored ones.

        Args:
            index: as written by `lay_out`.
            base: the commit that was checked out there. The contents of its submodules are ignored.

        Raises:
            Uncommittable: the directory cannot be read, or contains another repository.
        """
        if not await trio.to_thread.run_sync(is_directory, directory):
            raise Uncommittable("the worktree is gone: expected a directory where it was")
        for submodule in [path for path, (mode, _) in (await self._entries(base)).items() if mode == SUBMODULE]:
            _empty_submodule(directory, submodule)
        try:
            nested = await trio.to_thread.run_sync(nested_repositories, directory)
            if nested:
                raise Uncommittable(
                    f"the worktree contains another git repository in {nested[0]!r}: its files cannot be committed; "
                    f"remove its .git"
                )
            await self.git.run("add", "--all", tree=directory, index=index)
            return (await self.git.run("write-tree", index=index)).decode().strip()
        except (GitError, OSError) as error:
            raise Uncommittable(f"the worktree cannot be committed: {error}") from error

    @asynccontextmanager
    async def at(self, commit: str) -> AsyncGenerator[Path, None]:
        """Provide a new worktree of `commit`, at a path never used before, and remove it afterwards."""
        await self._verify(commit)
        place = unused_path(self.folder, "at")
        try:
            (place / "tree").mkdir(parents=True)
            await self.lay_out(commit, place / "tree", place / "index")
            yield place / "tree"
        finally:
            await remove(place)

    async def _verify(self, commit: str) -> None:
        """Check that the content of every object of a commit matches its name, because other processes could have changed it.

        Raises:
            GitError: an object does not match. The repository is removed, and created again at the next start.
        """
        command = ("rev-list", "--quiet", "--objects", "--verify-objects", "--no-walk", "--end-of-options", commit)
        code, _, said = await self.git.ask(*command)
        if code or "mismatch" in said:
            raise await self._damaged(f"objects of {commit}", said.strip(), command, code)

    async def _damaged(self, what: str, said: str, command: tuple[str, ...] = (), code: int | None = None) -> GitError:
        """Remove the repository, and return the error that says why; it is created again at the next start."""
        await remove(self.git.directory)
        return GitError(
            f"repository {self.git.directory}: {what} do not match their names: expected the fetched ones, "
            f"git wrote: {said}; it was removed and will be created again",
            command=command,
            code=code,
            tail=said,
        )

    async def files(self, commit: str) -> tuple[str, ...]:
        """Return the paths of all files in a commit, including symbolic links but not submodules."""
        return tuple(path for path, (mode, _) in (await self._entries(commit)).items() if mode != SUBMODULE)

    async def read(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file, or the target of a symbolic link, in a commit; None if it does not exist."""
        mode, name = (await self._entries(commit)).get(path, (SUBMODULE, ""))
        if mode == SUBMODULE:
            return None
        if name not in self._blobs:
            content = await self.git.run("cat-file", "blob", name)
            if _name_of(content, len(name)) != name:
                raise await self._damaged(f"the bytes of {path} at {commit}", name)
            if len(content) > _MOST_BLOB:
                return content
            self._blobs[name] = content
            while sum(map(len, self._blobs.values())) > _MOST_BLOBS:
                del self._blobs[next(iter(self._blobs))]
            return content
        return self._blobs[name]

    async def changes(self, base: str, commit: str) -> tuple[Change, ...]:
        """Return the differences between two commits, ordered by path."""
        if base == commit:
            return ()
        options = ("-r", "-z", "--raw", "--no-renames", "--ignore-submodules=none", "--end-of-options")
        words = (await self.git.run("diff-tree", *options, base, commit)).split(b"\0")[:-1]
        return tuple(_change(about, path) for about, path in zip(words[::2], words[1::2], strict=True))

    async def sizes(self, base: str, commit: str) -> dict[str, tuple[int, bool]]:
        """Return of each file that a commit adds or changes its bytes, and whether git takes it for text."""
        changed = {one.path for one in await self.changes(base, commit) if one.status != "D" and one.mode != SUBMODULE}
        if not changed:
            return {}
        lines = (await self.git.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit)).split(b"\0")[:-1]
        split = ((os.fsdecode(path), about.split()) for about, path in (line.split(b"\t", 1) for line in lines))
        sizes = {path: int(about[3]) for path, about in split if path in changed}
        options = ("-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--end-of-options")
        counted = (await self.git.run("diff-tree", *options, base, commit)).split(b"\0")[:-1]
        binary = {os.fsdecode(line.split(b"\t", 2)[2]) for line in counted if line.startswith(b"-\t-\t")}
        return {path: (size, path not in binary) for path, size in sizes.items()}

    async def diff(self, base: str, commit: str) -> str:
        """Return the differences between two commits as a patch; of a long one the first `MOST_DIFF` characters.

        Raises:
            GitError: it is longer than 8 MB.
        """
        options = ("-r", "--patch", "--no-color", "--no-ext-diff", "--no-textconv", "--end-of-options")
        text = (await self.git.run("diff-tree", *options, base, commit, most=_MOST_PATCH)).decode(errors="replace")
        return text if len(text) <= MOST_DIFF else f"{text[:MOST_DIFF]}\n… {len(text) - MOST_DIFF:,} more characters\n"

    async def _entries(self, commit: str) -> _Entries:
        """Return all entries in a commit."""
        if commit not in self._listed:
            lines = (await self.git.run("ls-tree", "-r", "-z", "--full-tree", commit)).split(b"\0")[:-1]
            split = ((os.fsdecode(path), about.decode().split(" ")) for about, path in (one.split(b"\t", 1) for one in lines))
            entries = {path: (mode, name) for path, (mode, _, name) in split}
            keep_newest(self._listed, commit, entries, _MOST_KNOWN)
            return entries
        return self._listed[commit]


async def make_bare(git: Git, format: str) -> None:
    """Create a bare repository, completely or not at all."""
    half = unused_path(git.directory.parent, git.directory.name)
    half.mkdir(parents=True)
    await git.to(half).run("init", "--quiet", "--bare", f"--object-format={format}", "--template=", half)
    reset_settings(half, format)
    await remove(git.directory)
    half.rename(git.directory)


def reset_settings(directory: Path, format: str) -> None:
    """Restore settings, attributes and exclusions of a bare repository to ours."""
    info = directory / "info"
    wanted = {info / "exclude": _LEFTOVERS, info / "attributes": _ATTRIBUTES}
    if info.is_symlink() or not info.is_dir() or {*info.iterdir()} != {*wanted}:
        make_empty(info)
    for path, text in {directory / "config": settings(format), **wanted}.items():
        _write(path, text)
    for name in ("objects/info/alternates", "hooks"):
        remove_sync(directory / name)


def settings(format: str) -> str:
    """Return the contents of our repositories' configuration file."""
    is_sha256 = format == "sha256"
    return _CONFIG.format(version=int(is_sha256), extensions=_SHA256 if is_sha256 else "")


async def fetch(git: Git, source: Path, *refs: str) -> None:
    """Fetch commits into a repository without tags, other refs or submodules."""
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--update-shallow", "--force")
    await git.run("fetch", *options, "--end-of-options", source, *refs)


def _name_of(content: bytes, length: int) -> str:
    """Return the name that git gives to a file's content; a SHA-1, or a longer hash."""
    hashed = hashlib.new("sha1" if length == _SHA1 else "sha256", usedforsecurity=False)
    hashed.update(b"blob %d\0" % len(content))
    hashed.update(content)
    return hashed.hexdigest()


def _write(path: Path, text: str) -> None:
    if path.is_symlink() or not path.is_file():
        remove_sync(path)
    elif path.read_bytes() == text.encode():
        return
    half = path.with_name(f"{path.name}.new")
    half.write_text(text)
    half.replace(path)


def _empty_submodule(directory: Path, submodule: str) -> None:
    place = directory / submodule
    if any(parent.is_symlink() for parent in (place, *place.parents) if directory in parent.parents):
        return
    if place.is_dir():
        make_empty(place)


def _change(about: bytes, path: bytes) -> Change:
    before, after, _, _, status = about.decode().removeprefix(":").split(" ")
    mode = before if status == "D" else after
    return Change(status[:1], os.fsdecode(path), mode)
