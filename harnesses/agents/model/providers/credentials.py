"""`Credential`: a provider's key, from the environment, a file or the program; it can expire and be replaced.

    key = Credential.of("ANTHROPIC_API_KEY")      that variable, else the file that ANTHROPIC_API_KEY_FILE names
    key = Credential.in_file("anthropic.key")     read anew whenever the file changes
    key = Credential("…", ttl_s=3600)             replaced by key.rotate("…")

Invariant: the key is in no record, repr, log, exception or pickle. Once it has been used, the redaction of this process
replaces it wherever it appears.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import NoReturn

from harnesses.agents.model.errors import AuthenticationFailed
from harnesses.errors import HarnessMisuse
from harnesses.files.private_files import conceal_file
from harnesses.files.safe_files import open_own
from harnesses.redaction.known_secrets import conceal_secret

_MOST_BYTES = 16_384
"""Maximum size of a key file."""


class Credential:
    """A key of a provider.

    Args:
        value: the key.
        ttl_s: seconds for which it is valid; None for ever.

    Raises:
        HarnessMisuse: the key is empty or not one line, or `ttl_s` is not above 0.
    """

    __slots__ = ("_digest", "_ends_at", "_name", "_path", "_read", "_value", "_variable")

    def __init__(self, value: str, *, ttl_s: float | None = None) -> None:
        self._name = "the key"
        self._variable = ""
        self._path: Path | None = None
        self._read: tuple[int, ...] = ()
        self._set(value, ttl_s)

    @classmethod
    def of(cls, variable: str) -> Credential:
        """Return the key in an environment variable; without it, in the file that `<variable>_FILE` names."""
        return cls._source(variable, variable=variable)

    @classmethod
    def in_file(cls, path: Path | str) -> Credential:
        """Return the key in a file that only its owner can read. The file is hidden from sandboxes."""
        conceal_file(path)
        return cls._source(f"key file {path}", path=Path(path))

    @classmethod
    def _source(cls, name: str, *, variable: str = "", path: Path | None = None) -> Credential:
        made = object.__new__(cls)
        made._name, made._variable, made._path, made._read = name, variable, path, ()
        made._value = made._digest = ""
        made._ends_at = None
        return made

    def rotate(self, value: str, *, ttl_s: float | None = None) -> None:
        """Replace the key. Calls in progress finish with the old one.

        Raises:
            HarnessMisuse: the key comes from the environment or a file: change it there; or as for the constructor.
        """
        if self._variable or self._path is not None:
            raise HarnessMisuse(
                f"{self._name}: rotate: expected a key that the program holds, got one from outside; change it there"
            )
        self._set(value, ttl_s)

    def reveal(self) -> str:
        """Return the key.

        Raises:
            AuthenticationFailed: it is missing or has expired, or its file is not private.
        """
        self._refresh()
        if not self._value:
            wanted = f"the environment variable {self._variable} or {self._variable}_FILE" if self._variable else "a key"
            raise AuthenticationFailed(f"{self._name} is missing: expected {wanted}, got none; set it, then start again")
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            raise AuthenticationFailed(f"{self._name} has expired: expected a valid key, got one past its time; rotate it")
        return self._value

    @property
    def name(self) -> str:
        """Where it comes from: the environment variable, or the key file."""
        return self._name

    @property
    def is_set(self) -> bool:
        """Whether there is a valid key."""
        try:
            return bool(self.reveal())
        except AuthenticationFailed:
            return False

    @property
    def digest(self) -> str:
        """The start of the key's hash, to tell accounts apart; empty if there is no valid key."""
        return self._digest if self.is_set else ""

    def __repr__(self) -> str:
        return f"<Credential {self._name}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Credential cannot be pickled or copied, since it holds a key")

    def _set(self, value: str, ttl_s: float | None) -> None:
        if ttl_s is not None and not ttl_s > 0:
            raise HarnessMisuse(f"{self._name}: ttl_s: expected seconds above 0, got {ttl_s!r}; correct it")
        value = value.strip()
        if not value or not value.isprintable() or not value.isascii():
            raise HarnessMisuse(f"{self._name}: expected one line of ASCII, got {len(value)} characters; correct it")
        conceal_secret(value)
        self._value = value
        self._digest = hashlib.sha256(value.encode()).hexdigest()[:12]
        self._ends_at = None if ttl_s is None else time.monotonic() + ttl_s

    def _refresh(self) -> None:
        """Read the key anew if its source has changed."""
        path = self._path
        if self._variable:
            if value := os.environ.get(self._variable, "").strip():
                if value != self._value:
                    self._set(value, None)
                return
            named = os.environ.get(f"{self._variable}_FILE", "").strip()
            path = Path(named) if named else None
            if path is None:
                self._value = self._digest = ""
        if path is not None:
            self._read_file(path)

    def _read_file(self, path: Path) -> None:
        try:
            status, text = _read_private(path, self._read)
        except OSError as error:
            raise AuthenticationFailed(
                f"key file {path} cannot be read: expected a file with a key, got {error.strerror}; correct its path or owner"
            ) from None
        if status != self._read:
            conceal_file(path)
            self._set(text, None)
            self._read = status


def _read_private(path: Path, known: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    """Return what identifies the content of a file, and the content, which is only read if it is not known.

    Raises:
        AuthenticationFailed: others can read the file.
        OSError: it cannot be read.
    """
    descriptor = open_own(path, os.O_RDONLY)
    try:
        status = os.fstat(descriptor)
        if (mode := status.st_mode & 0o7777) & 0o077:
            raise AuthenticationFailed(
                f"key file {path} is not private: expected mode 0600, got {mode:04o}; run `chmod 600 {path}`"
            )
        found = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
        return found, "" if found == known else os.read(descriptor, _MOST_BYTES).decode(errors="replace")
    finally:
        os.close(descriptor)


NO_KEY = "none"
"""What is sent to a server that needs no key."""
