"""`ConfinedFolder`: reads and changes files below a directory, and never outside of it.

Each part of a path is opened relative to the directory before it, without following links; a link is read, and its target
walked in the same way. So a link that is swapped in during the walk leads nowhere else.

Invariants: nothing outside of the directory is read or written; nothing in a `.git` is written; only regular files are opened,
so that no device or FIFO is. A file is replaced as a whole or stays as it is, also where it has a second name elsewhere; of
several that are changed together, all or none is.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from attrs import define, field, frozen

from harnesses.agents.tools.tool import ToolError

MAX_FILE_BYTES = 10 * 1024 * 1024
"""Bytes of a file that is read."""
_MOST_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REFUSED = (errno.ELOOP, errno.ENOTDIR)


class OutsideFolder(ToolError):
    """A path leads out of the directory, or to what may not be changed."""


@frozen
class Entry:
    """An entry of a folder."""

    name: str
    kind: str
    """`file`, `folder`, `link` or `other`."""
    size_bytes: int = 0


@frozen
class _Place:
    folder: int
    """Descriptor of the folder of the file."""
    name: str
    """Name in it; empty for the directory itself."""
    path: str
    """Path below the directory, without links."""


def _other_name() -> str:
    return f".{secrets.token_hex(8)}.part"


@define(eq=False)
class _Change:
    """The change of one file, which can be undone."""

    place: _Place
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
        with _told(self.path), open(os.open(self.draft, flags, 0o666, dir_fd=self.place.folder), "wb") as file:
            file.write(data)
            if self.before is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(self.before.st_mode))

    def make(self) -> None:
        folder, name = self.place.folder, self.place.name
        with _told(self.path):
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
            _check_file(place, path)
            with _told(path), open(os.open(place.name, _reading(), dir_fd=place.folder), "rb") as file:
                _check_regular(os.fstat(file.fileno()), path)
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
                _check_changeable(name, path)
        with suppress(FileNotFound), ExitStack() as stack:
            _walk(parts, path, self.root, stack, changes=changes, make=False)

    def exists(self, path: str) -> bool:
        """Return whether there is anything under a path."""
        try:
            with self._found(path) as place:
                with _told(path):
                    return not place.name or _stat(place) is not None
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
            before = _check_file(place, path, may_be_missing=data is not None)
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
        with self._opened(path) as folder, _told(path), os.scandir(folder) as found:
            return sorted((_entry(one) for one in found if one.name != ".git"), key=lambda one: one.name)

    @contextmanager
    def folder_of(self, path: str) -> Generator[tuple[int, str, str]]:
        """Yield the descriptor of a folder, the name of a file in it (empty if the path is a folder), and the path of the
        folder."""
        with self._found(path) as place:
            known = _stat(place) if place.name else None
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
            with _told(path):
                folder = os.open(place.name or ".", _FOLDER, dir_fd=place.folder)
            try:
                yield folder
            finally:
                os.close(folder)

    @contextmanager
    def _found(self, path: str, *, changes: bool = False) -> Generator[_Place]:
        """Yield the place of a path, with all links resolved.

        Args:
            changes: whether something is changed there: missing folders are made, and `.git` is refused.
        """
        with ExitStack() as stack:
            yield _walk(self._parts(path), path, self.root, stack, changes=changes, make=changes)

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


class FileNotFound(ToolError):
    """There is no such file or folder."""


def _walk(parts: list[str], path: str, root: Path, stack: ExitStack, *, changes: bool, make: bool) -> _Place:
    waiting, links = parts[::-1], 0
    folders, names = [_keep(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), stack)], list[str]()
    while waiting:
        name = waiting.pop()
        if name == "..":
            if not names:
                raise OutsideFolder(f"{path!r} leads out of the working directory; use a path below it")
            names.pop()
            folders.pop()
            continue
        if changes:
            _check_changeable(name, path)
        if (target := _link_at(folders[-1], name)) is not None:
            links += 1
            if links > _MOST_LINKS or target.startswith("/"):
                raise OutsideFolder(f"{path!r} is a link to {target!r:.200}, outside of the working directory")
            waiting += [part for part in reversed(target.split("/")) if part not in ("", ".")]
        elif not waiting:
            return _Place(folders[-1], name, "/".join([*names, name]))
        else:
            if make:
                _make_folder(folders[-1], name, path, stack)
            folders.append(_keep(_enter(folders[-1], name, path), stack))
            names.append(name)
    return _Place(folders[-1], "", "/".join(names))


def _check_changeable(name: str, path: str) -> None:
    if name.casefold() == ".git":
        raise OutsideFolder(f"{path!r} is in a .git folder, which tools may not change; use git commands")


def _keep(descriptor: int, stack: ExitStack) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _link_at(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _make_folder(parent: int, name: str, path: str, stack: ExitStack) -> None:
    """Make a folder if there is none; remove it again if an error ends the stack."""

    def undo(kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(OSError):
                os.rmdir(name, dir_fd=parent)

    with _told(path), suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
        stack.push(undo)


def _enter(folder: int, name: str, path: str) -> int:
    with _told(path):
        return os.open(name, _FOLDER, dir_fd=folder)


def _stat(place: _Place) -> os.stat_result | None:
    try:
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _check_file(place: _Place, path: str, *, may_be_missing: bool = False) -> os.stat_result | None:
    if not place.name:
        raise ToolError(f"{path!r} is a folder: expected a file")
    with _told(path):
        known = _stat(place)
    if known is None:
        if not may_be_missing:
            raise FileNotFound(f"there is no file {path!r}; list the folder to see what there is")
        return None
    _check_regular(known, path)
    return known


def _check_regular(known: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(known.st_mode):
        what = (
            "a folder"
            if stat.S_ISDIR(known.st_mode)
            else "a link"
            if stat.S_ISLNK(known.st_mode)
            else "a device, FIFO or socket"
        )
        raise ToolError(f"{path!r} is {what}: expected a file")


def _reading() -> int:
    return os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def _told(path: str) -> Generator[None]:
    """Make an error of the system into one for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFound(f"there is no {path!r}; list the folder to see what there is") from error
    except OSError as error:
        if error.errno in _REFUSED:
            raise OutsideFolder(f"{path!r} was not opened: a part of it is a link or no folder") from error
        raise ToolError(f"{path!r}: {error.strerror or error}") from error


def _entry(found: os.DirEntry[str]) -> Entry:
    if found.is_symlink():
        return Entry(found.name, "link")
    if found.is_dir(follow_symlinks=False):
        return Entry(found.name, "folder")
    if found.is_file(follow_symlinks=False):
        return Entry(found.name, "file", found.stat(follow_symlinks=False).st_size)
    return Entry(found.name, "other")
