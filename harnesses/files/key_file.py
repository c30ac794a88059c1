"""A key in a file that only its user can read. It is made whole or not at all: another program may be making it just now."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

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
