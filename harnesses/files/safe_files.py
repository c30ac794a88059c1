"""Safe file operations: atomic writes, guarded opening, and key files that only their owner can read.

Invariant: a path always holds either the old file or the new one, complete. A key is created complete or not at all, because
another program may be creating it at the same time. An error leaves no draft behind; a kill may leave one, named like the file
with the suffix `.part`. Only links made by the user or the system are followed.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def draft_of(path: Path, *, mode: int = 0o666, is_synced: bool = False) -> Generator[IO[bytes], None, None]:
    """Yield a draft file that replaces `path` when the block ends without an error.

    The draft has an unpredictable name and is created exclusively, so it cannot follow a planted link.

    Args:
        mode: permissions of a new file, less the umask.
        is_synced: whether it is on disk before it takes the name.

    Raises:
        OSError: it cannot be written.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(6)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(draft, flags, mode), "wb") as file:
            yield file
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def sync(place: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_MOST_LINKS = 40
"""Maximum number of links followed in a chain; the limit of Linux."""


def open_own(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a file and return a descriptor that is not inherited; a link is followed.

    Raises:
        PermissionError: it is a link that another user has made.
        OSError: it cannot be opened.
    """
    flags |= os.O_CLOEXEC
    for _ in range(_MOST_LINKS):
        try:
            return os.open(path, flags | os.O_NOFOLLOW, mode)
        except OSError as error:
            if error.errno != errno.ELOOP or not hasattr(os, "O_PATH"):
                raise
        path = _target(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _target(path: Path) -> Path:
    # The link itself is opened, so that the owner that is checked is that of the link that is followed.
    link = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(link).st_uid not in (os.geteuid(), 0):
            raise PermissionError(errno.EPERM, "it is a link that another user has made", str(path))
        target = os.readlink("", dir_fd=link)
    finally:
        os.close(link)
    return path.parent / target


KEY_BYTES = 32


def make_key(path: Path) -> None:
    """Create a key file, unless it exists.

    Raises:
        OSError: it cannot be created.
    """
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(descriptor, secrets.token_hex(KEY_BYTES).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def key_in(text: str) -> bytes:
    """Parse the text of a key file.

    Raises:
        ValueError: it contains no valid key.
    """
    key = bytes.fromhex(text.strip())
    if len(key) != KEY_BYTES:
        raise ValueError(f"expected {KEY_BYTES} bytes as hexadecimal digits, got {len(key)}")
    return key
