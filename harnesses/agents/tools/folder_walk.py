"""Walks a path below a directory, and never out of it.

Each part of a path is opened relative to the directory before it, without following links; a link is read, and its target
walked in the same way. So a link that is swapped in during the walk leads nowhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from attrs import frozen

from harnesses.agents.tools.tool import ToolError

_MOST_LINKS = 40
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REFUSED = (errno.ELOOP, errno.ENOTDIR)


class OutsideFolder(ToolError):
    """A path leads out of the directory, or to what may not be changed."""


class FileNotFound(ToolError):
    """There is no such file or folder."""


@frozen
class Place:
    """Where a path leads."""

    folder: int
    """Descriptor of the folder of the file."""
    name: str
    """Name in it; empty for the directory itself."""
    path: str
    """Path below the directory, without links."""


def walk(parts: list[str], path: str, root: Path, stack: ExitStack, *, changes: bool, make: bool) -> Place:
    """Return where a path leads, with all links resolved.

    Args:
        parts: the parts of the path, below the root.
        path: the path as it was given, for messages.
        stack: closes the descriptors on the way; on an error it removes the folders that were made.
        changes: whether `.git` is refused.
        make: whether missing folders are made.

    Raises:
        OutsideFolder: it leads out of the root, or to what may not be changed.
        FileNotFound: a folder on the way is missing.
    """
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
            check_changeable(name, path)
        if (target := _link_at(folders[-1], name)) is not None:
            links += 1
            if links > _MOST_LINKS or target.startswith("/"):
                raise OutsideFolder(f"{path!r} is a link to {target!r:.200}, outside of the working directory")
            waiting += [part for part in reversed(target.split("/")) if part not in ("", ".")]
        elif not waiting:
            return Place(folders[-1], name, "/".join([*names, name]))
        else:
            if make:
                _make_folder(folders[-1], name, path, stack)
            folders.append(_keep(_enter(folders[-1], name, path), stack))
            names.append(name)
    return Place(folders[-1], "", "/".join(names))


def check_changeable(name: str, path: str) -> None:
    """Refuse a part of a path that tools may not change."""
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

    with told(path), suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
        stack.push(undo)


def _enter(folder: int, name: str, path: str) -> int:
    with told(path):
        return os.open(name, FOLDER, dir_fd=folder)


def stat_of(place: Place) -> os.stat_result | None:
    """Return what is known of a file; None if there is none."""
    try:
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def check_file(place: Place, path: str, *, may_be_missing: bool = False) -> os.stat_result | None:
    """Check that a place is a regular file, and return what is known of it."""
    if not place.name:
        raise ToolError(f"{path!r} is a folder: expected a file")
    with told(path):
        known = stat_of(place)
    if known is None:
        if not may_be_missing:
            raise FileNotFound(f"there is no file {path!r}; list the folder to see what there is")
        return None
    check_regular(known, path)
    return known


def check_regular(known: os.stat_result, path: str) -> None:
    """Refuse folders, links, devices, FIFOs and sockets."""
    if not stat.S_ISREG(known.st_mode):
        what = (
            "a folder"
            if stat.S_ISDIR(known.st_mode)
            else "a link"
            if stat.S_ISLNK(known.st_mode)
            else "a device, FIFO or socket"
        )
        raise ToolError(f"{path!r} is {what}: expected a file")


@contextmanager
def told(path: str) -> Generator[None]:
    """Make an error of the system into one for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFound(f"there is no {path!r}; list the folder to see what there is") from error
    except OSError as error:
        if error.errno in _REFUSED:
            raise OutsideFolder(f"{path!r} was not opened: a part of it is a link or no folder") from error
        raise ToolError(f"{path!r}: {error.strerror or error}") from error
