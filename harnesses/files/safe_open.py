"""Opening files whose names others may have put a link at: what is followed is what the user, or the system, has put there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

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
