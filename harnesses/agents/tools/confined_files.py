"""`ConfinedFolder`: reads and changes files below a directory, and never outside of it.

Each part of a path is opened relative to the directory before it, without following links; a link is read, and its target
walked in the same way. So a link that is swapped in during the walk leads nowhere else.

Invariants: nothing outside of the directory is read or written; nothing in a `.git` is written; only regular files are opened,
so that no device or FIFO is. A file is replaced as a whole or stays as it is, also where it has a second name elsewhere.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from attrs import field, frozen

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

    def exists(self, path: str) -> bool:
        """Return whether there is anything under a path."""
        try:
            with self._found(path) as place:
                return not place.name or _stat(place) is not None
        except FileNotFound:
            return False

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file, with the folders that it needs. Permissions of an existing file are kept."""
        with self._found(path, changes=True) as place:
            before = _check_file(place, path, may_be_missing=True)
            draft = f".{secrets.token_hex(8)}.part"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with _told(path):
                descriptor = os.open(draft, flags, 0o666, dir_fd=place.folder)
                try:
                    with open(descriptor, "wb") as file:
                        file.write(data)
                        if before is not None:
                            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
                    os.rename(draft, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(draft, dir_fd=place.folder)
                    raise

    def remove(self, path: str) -> None:
        """Delete a file."""
        with self._found(path, changes=True) as place:
            _check_file(place, path)
            with _told(path):
                os.unlink(place.name, dir_fd=place.folder)

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
            yield _walk(self._parts(path), path, self.root, stack, changes=changes)

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


def _walk(parts: list[str], path: str, root: Path, stack: ExitStack, *, changes: bool) -> _Place:
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
        if changes and name.casefold() == ".git":
            raise OutsideFolder(f"{path!r} is in a .git folder, which tools may not change; use git commands")
        if (target := _link_at(folders[-1], name)) is not None:
            links += 1
            if links > _MOST_LINKS or target.startswith("/"):
                raise OutsideFolder(f"{path!r} is a link to {target!r:.200}, outside of the working directory")
            waiting += [part for part in reversed(target.split("/")) if part not in ("", ".")]
        elif not waiting:
            return _Place(folders[-1], name, "/".join([*names, name]))
        else:
            folders.append(_keep(_enter(folders[-1], name, path, make=changes), stack))
            names.append(name)
    return _Place(folders[-1], "", "/".join(names))


def _keep(descriptor: int, stack: ExitStack) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _link_at(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _enter(folder: int, name: str, path: str, *, make: bool) -> int:
    with _told(path):
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
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
