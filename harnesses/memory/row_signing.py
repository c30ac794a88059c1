"""What proves that a row of a memory was written by the memory: an HMAC over the whole of it, with a key beside the file.

The law: a row that does not verify is not read. The key is a file that only its user can read; who has it can write anything,
so an agent that is not trusted that far belongs in a sandbox.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from pathlib import Path

from attrs import field, frozen

from harnesses.files.key_file import key_in, make_key
from harnesses.memory.errors import MemoryUnusable


@frozen
class Signer:
    """Signs rows, and verifies them."""

    _key: bytes = field(repr=False)

    @property
    def key_id(self) -> str:
        """Tells two keys apart, and says nothing of either."""
        return hashlib.sha256(b"key of a memory\0" + self._key).hexdigest()[:16]

    def sign(self, kind: str, *parts: str) -> str:
        """Return the signature of a row: of its kind, and of every part of it in order."""
        text = "".join(f"{len(part.encode())}:{part}\n" for part in (kind, *parts))
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def verifies(self, signature: object, kind: str, *parts: str) -> bool:
        """Return whether a signature is the one of this row."""
        if not isinstance(signature, str) or not signature.isascii():
            return False
        try:
            return hmac.compare_digest(signature, self.sign(kind, *parts))
        except UnicodeEncodeError:
            return False


def key_path(path: Path) -> Path:
    """Return where the key of a memory is."""
    return path.with_name(f"{path.name}-key")


def signer_for(path: Path) -> Signer:
    """Return the signer of the memory at `path`; its key is made when there is none.

    Raises:
        MemoryUnusable: the key cannot be made or read, or others may read it.
    """
    place = key_path(path)
    try:
        make_key(place)
        return Signer(_read(place))
    except (OSError, ValueError) as error:
        raise MemoryUnusable(
            f"key {place} of the memory cannot be used: {error}; restore it, or move it away to begin anew: "
            "what was signed with it is not read then"
        ) from error


def _read(place: Path) -> bytes:
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("expected a plain file")
        if status.st_mode & 0o077:
            raise ValueError(f"expected that only its user may read it, was {stat.filemode(status.st_mode)}; chmod 600 it")
        text = os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
    return key_in(text.decode("ascii"))


def signer_of(path: Path) -> Signer:
    """Return the signer of a memory that has one.

    Raises:
        MemoryUnusable: the key is not there, or cannot be used.
    """
    place = key_path(path)
    try:
        return Signer(_read(place))
    except (OSError, ValueError) as error:
        raise MemoryUnusable(f"key {place} of the memory cannot be used: {error}; restore it") from error
