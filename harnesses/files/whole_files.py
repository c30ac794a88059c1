"""Writing a file whole: as a draft beside it, which takes its place when it is written.

The law: at its name there is the old file or the new one, whole. After an error nothing of the draft is left; after a kill it
may be, called like the file, with `.part` at its end.
"""

from __future__ import annotations

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
