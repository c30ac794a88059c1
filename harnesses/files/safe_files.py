"""Files that others may look at meanwhile: written whole, opened safely, and keys, which only their user can read.

The law: at its name there is the old file or the new one, whole; a key is made whole or not at all, for another program may be
making it just now. After an error nothing of a draft is left; after a kill it may be, called like the file, with `.part` at
its end. Of links, what is followed is what the user, or the system, has put there.
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
    """Give a file that takes the place of `path` when the block has ended well.

    The draft has a name that nobody can have put a link at: a file that is made exclusively follows none.

    Args:
        mode: the permissions of a new file, less the umask.
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
    """Have a file, or the names in a folder, on disk."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_MOST_LINKS = 40
"""One behind the other, as for Linux itself."""


def open_own(path: Path, flags: int, mode: int = 0o666) -> int:
    """Return a descriptor of a file, which is not inherited; of a link, one of its target.

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
    # The link itself is held, so that it is this one which is asked for its owner and then followed.
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
    """Make the file of a key, unless it is there.

    Raises:
        OSError: it cannot be made.
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
    """Return the key that is in the text of its file.

    Raises:
        ValueError: there is none.
    """
    key = bytes.fromhex(text.strip())
    if len(key) != KEY_BYTES:
        raise ValueError(f"expected {KEY_BYTES} bytes as hexadecimal digits, were {len(key)}")
    return key
