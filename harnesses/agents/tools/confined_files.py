"""`ConfinedFolder`: reads and changes files below a directory, and never outside of it.

Invariants: nothing outside of the directory is read or written; nothing in a `.git` is written; only regular files are opened,
so that no device or FIFO is. A file is replaced as a whole or stays as it is, also where it has a second name elsewhere; of
several that are changed together, all or none is.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from attrs import define, field, frozen

from harnesses.agents.tools.folder_walk import (
    FOLDER,
    FileNotFound,
    OutsideFolder,
    Place,
    check_changeable,
    check_file,
    check_regular,
    stat_of,
    told,
    walk,
)
from harnesses.agents.tools.tool import ToolError

MAX_FILE_BYTES = 10 * 1024 * 1024
"""Bytes of a file that is read."""


@frozen
class Entry:
    """An entry of a folder."""

    name: str
    kind: str
    """`file`, `folder`, `link` or `other`."""
    size_bytes: int = 0


def _other_name() -> str:
    return f".{secrets.token_hex(8)}.part"


@define(eq=False)
class _Change:
    """The change of one file, which can be undone."""

    place: Place
    path: str
    before: os.stat_result | None
    """None if there was no file."""
    is_deletion: bool
    draft: str = field(factory=_other_name)
    """Name of the new content, until the change is made."""
    kept: str = field(factory=_other_name)
    """Name of the old content, once the change is made."""
    is_made: bool = False

    def write(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with told(self.path), open(os.open(self.draft, flags, 0o666, dir_fd=self.place.folder), "wb") as file:
            file.write(data)
            if self.before is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(self.before.st_mode))

    def make(self) -> None:
        folder, name = self.place.folder, self.place.name
        with told(self.path):
            if self.is_deletion:
                os.rename(name, self.kept, src_dir_fd=folder, dst_dir_fd=folder)
                return
            if self.before is not None:
                try:
                    os.link(name, self.kept, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                except OSError:  # Not every file system has hard links.
                    os.rename(name, self.kept, src_dir_fd=folder, dst_dir_fd=folder)
            os.rename(self.draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            self.is_made = True

    def undo(self, kind: type[BaseException] | None, *_: object) -> None:
        """Put the old content back, if an error has ended the changes."""
        folder, name = self.place.folder, self.place.name
        if kind is None:
            return
        if self.before is None and self.is_made:
            self.remove(name)
        with suppress(FileNotFoundError):
            os.rename(self.kept, name, src_dir_fd=folder, dst_dir_fd=folder)
            self.remove(self.kept)  # A rename onto its own hard link does nothing.

    def remove(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(name, dir_fd=self.place.folder)


@frozen
class ConfinedFolder:
    """The files below a directory. Paths are relative to it, or absolute and below it; links that stay below are followed."""

    root: Path = field(converter=Path)

    def read(self, path: str, most: int = MAX_FILE_BYTES) -> bytes:
        """Return the content of a file.

        Raises:
            ToolError: it is no regular file, too large, or outside; the message is for the model.
        """
        with self._found(path) as place:
            check_file(place, path)
            with told(path), open(os.open(place.name, _reading(), dir_fd=place.folder), "rb") as file:
                check_regular(os.fstat(file.fileno()), path)
                data = file.read(most + 1)
        if len(data) > most:
            raise ToolError(f"{path!r} is too large: expected at most {most} bytes; search in it, or use a command")
        return data

    def check(self, path: str, *, changes: bool = False) -> None:
        """Check that a path does not lead out of the directory; it need not exist.

        Args:
            changes: whether a file there may also be changed.

        Raises:
            OutsideFolder: it leads out, or to what may not be changed.
        """
        parts = self._parts(path)
        if changes:
            for name in parts:
                check_changeable(name, path)
        with suppress(FileNotFound), ExitStack() as stack:
            walk(parts, path, self.root, stack, changes=changes, make=False)

    def spelling(self, path: str) -> str:
        """Return a path in the one spelling that all paths of a file share: below the directory, with its links resolved."""
        try:
            with self._found(path) as place:
                return place.path
        except FileNotFound:
            return os.path.normpath("/".join(self._parts(path)))

    def exists(self, path: str) -> bool:
        """Return whether there is anything under a path."""
        try:
            with self._found(path) as place:
                with told(path):
                    return not place.name or stat_of(place) is not None
        except FileNotFound:
            return False

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file, with the folders that it needs. Permissions of an existing file are kept."""
        self.change({path: data})

    def change(self, files: Mapping[str, bytes | None]) -> None:
        """Create, replace or delete (None) files, with the folders that they need: all of them, or on an error none.

        New content is written in full beside its file before the first name changes.
        """
        with ExitStack() as stack:
            changes = [stack.enter_context(self._prepared(path, data)) for path, data in files.items()]
            for change in changes:
                stack.push(change.undo)
                change.make()

    @contextmanager
    def _prepared(self, path: str, data: bytes | None) -> Generator[_Change]:
        """Write the new content of a file under another name; remove what other names are left at the end."""
        with self._found(path, changes=True) as place:
            before = check_file(place, path, may_be_missing=data is not None)
            change = _Change(place, path, before, is_deletion=data is None)
            try:
                if data is not None:
                    change.write(data)
                yield change
                change.remove(change.kept)
            finally:
                change.remove(change.draft)

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a folder by name, without `.git`."""
        with self._opened(path) as folder, told(path), os.scandir(folder) as found:
            return sorted((_entry(one) for one in found if one.name != ".git"), key=lambda one: one.name)

    @contextmanager
    def folder_of(self, path: str) -> Generator[tuple[int, str, str]]:
        """Yield the descriptor of a folder, the name of a file in it (empty if the path is a folder), and the path of the
        folder."""
        with self._found(path) as place:
            known = stat_of(place) if place.name else None
            if place.name and known is None:
                raise FileNotFound(f"there is no {path!r}")
            if known is not None and not stat.S_ISDIR(known.st_mode):
                yield place.folder, place.name, place.path.rpartition("/")[0]
                return
        with self._opened(path) as folder:
            yield folder, "", place.path

    @contextmanager
    def _opened(self, path: str) -> Generator[int]:
        with self._found(path) as place:
            with told(path):
                folder = os.open(place.name or ".", FOLDER, dir_fd=place.folder)
            try:
                yield folder
            finally:
                os.close(folder)

    @contextmanager
    def _found(self, path: str, *, changes: bool = False) -> Generator[Place]:
        """Yield the place of a path, with all links resolved.

        Args:
            changes: whether something is changed there: missing folders are made, and `.git` is refused.
        """
        with ExitStack() as stack:
            yield walk(self._parts(path), path, self.root, stack, changes=changes, make=changes)

    def _parts(self, path: str) -> list[str]:
        if not path or "\0" in path:
            raise ToolError(
                f"path {path!r:.200}: expected a path below the working directory; use `.` for the directory itself"
            )
        pure = PurePosixPath(path)
        if pure.is_absolute():
            roots = (PurePosixPath(self.root), PurePosixPath(os.path.realpath(self.root)))
            root = next((root for root in roots if pure.is_relative_to(root)), None)
            if root is None:
                raise OutsideFolder(f"{path!r} is outside of the working directory {str(self.root)!r}; use a path below it")
            pure = pure.relative_to(root)
        return list(pure.parts)


def _reading() -> int:
    return os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _entry(found: os.DirEntry[str]) -> Entry:
    if found.is_symlink():
        return Entry(found.name, "link")
    if found.is_dir(follow_symlinks=False):
        return Entry(found.name, "folder")
    if found.is_file(follow_symlinks=False):
        return Entry(found.name, "file", found.stat(follow_symlinks=False).st_size)
    return Entry(found.name, "other")
