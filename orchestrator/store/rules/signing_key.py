"""The key that signs a store's approvals: a file beside it, `<store>-key`, that only its user can read.

Anyone who can read it can approve in that user's name. It does not exist inside a sandbox, and any other command of a harness
finds it empty, where the kernel supports that (`reaper.py`). A process that a harness starts without `run_bounded` can read
it.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from harnesses.files.safe_files import KEY_BYTES, key_in, make_key
from orchestrator.errors import NotReady, StoreUnusable, UsageError
from orchestrator.store.file.server_copy import server_of
from orchestrator.store.store_capabilities import Leased, path_of, secret_of

KEY_FILE = "ORCHESTRATOR_APPROVAL_KEY_FILE"
"""Environment variable that names the file with the key of a store that is not in a file."""
_NEEDS_KEY = (
    f"approvals need a key: expected the environment variable {KEY_FILE} to name a file of {2 * KEY_BYTES} hexadecimal "
    f"digits, the same on every machine; `openssl rand -hex {KEY_BYTES}` makes one"
)


def given_key() -> bytes | None:
    """Return the key of a store that is not in a file; None if the environment names none.

    Raises:
        UsageError: its file cannot be read.
    """
    path = os.environ.get(KEY_FILE)
    if not path:
        return None
    try:
        return key_in(Path(path).read_text("ascii"))
    except (OSError, ValueError) as error:
        raise UsageError(f"the key file {path} cannot be read: {error}; see {KEY_FILE}") from error


def secret_path(store: str | Path) -> Path:
    """Return the path of a store's key."""
    return Path(f"{Path(store).resolve()}-key")


class Secret:
    """The key of one store, created when it is first needed."""

    def __init__(self, store: object) -> None:
        path = path_of(store)
        self._path = None if path is None else secret_path(path)
        self._bytes = secret_of(store)
        self._lacks = store.location if isinstance(store, Leased) and self._bytes is None else ""
        """A store on a server that was given no key: one made here would be unknown to other machines, and to the next run."""

    def get(self) -> bytes:
        """Return the key.

        Raises:
            StoreUnusable: its file cannot be created or read.
            NotReady: the store is on a server, and was given no key.
        """
        if self._lacks:
            raise NotReady(f"{self._lacks}: {_NEEDS_KEY}")
        if self._bytes is None:
            self._bytes = secrets.token_bytes(KEY_BYTES) if self._path is None else _make(self._path)
        return self._bytes


def read_secret(store: str | Path) -> bytes:
    """Return the key of a store that has one.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    if (server := server_of(store)) is not None:
        if (given := given_key()) is None:
            raise UsageError(f"{server.location}: {_NEEDS_KEY}")
        return given
    path = secret_path(store)
    try:
        return _read(path)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the key {path} of the store's approvals cannot be read: {error}; restore it, or answer as the user who runs it"
        ) from error


def _make(path: Path) -> bytes:
    try:
        make_key(path)
        return _read(path)
    except (OSError, ValueError) as error:
        raise StoreUnusable(f"the key {path} cannot be created or read: {error}; make its folder writable") from error


def _read(path: Path) -> bytes:
    # A pipe in its place must not block, and a file of another user must not be used, since that user knows the key.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, encoding="ascii") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("expected a plain file")
        if os.geteuid() != 0 and status.st_uid not in (os.geteuid(), 0):
            raise ValueError("it belongs to another user")
        return key_in(file.read(1000))
