"""The kill switch for effects. It works even while the program's event loop is blocked.

It is a folder beside the store, checked before every effect. Anyone with write access can switch it on, by command or by
hand. A missing file means off; a file that cannot be checked means on.

    run.db-latch/@all      no effect of any harness may begin
    run.db-latch/NAME      no effect of that harness may begin
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from harnesses.diagnostics.control_characters import inert_json
from harnesses.errors import Latched
from orchestrator.errors import UsageError

ALL = "@all"
"""Name of the kill switch for all harnesses; not a valid harness name."""
_LONGEST = 100
_TRIES = 100
_LONGEST_TEXT = 100_000
"""Limit on the recorded text of a kill switch, bytes."""


class KillSwitch:
    """The kill switch of one store.

    Args:
        store: path of the store's file.
    """

    def __init__(self, store: str | Path) -> None:
        self.folder = Path(f"{Path(store).resolve()}-latch")
        self._folder = str(self.folder)

    def check(self, name: str) -> None:
        """Raise if no effect of the harness `name` may begin.

        Raises:
            Latched: the kill switch is on.
        """
        try:
            os.lstat(self._folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Latched(f"{self.folder} cannot be read: {error.strerror}; so no effect may begin") from error
        for switch in (ALL, name):
            if self._is_on(switch):
                raise latched(switch, str(_read(self._file(switch)).get("reason") or ""))

    def put_on(self, name: str = ALL, **said: str) -> None:
        """Switch it on for one harness or for all. No further effect begins after this returns.

        Args:
            said: who did it and why; kept in the file.
        """
        try:
            self._write(self._file(name), {**said, "name": name})
        except OSError as error:
            raise UsageError(
                f"the kill switch {self._file(name)} cannot be put on: {error.strerror}; make its folder writable"
            ) from error

    def take_off(self, name: str = ALL) -> bool:
        """Switch it off; return whether it was on."""
        file = self._file(name)
        try:
            with self._opened() as folder:
                os.unlink(file.name, dir_fd=folder)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise UsageError(f"the kill switch {file} cannot be taken off: {error.strerror}; remove the file") from error
        with suppress(OSError):
            self.folder.rmdir()
        return True

    def which(self) -> Mapping[str, Mapping[str, Any]]:
        """Return which kill switches are on, by `@all` or harness name, with their recorded text."""
        try:
            files = sorted(self.folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        said = [_read(file) for file in files]
        return {_name_of(file, fields): fields for file, fields in zip(files, said, strict=True)}

    def _file(self, name: str) -> Path:
        if "/" in name:
            raise UsageError(f"kill switch {name!r}: expected '{ALL}' or the name of a harness, which has no '/' in it")
        return self.folder / _file_name(name)

    def _is_on(self, name: str) -> bool:
        try:
            # Any file of that name counts, even a dangling link.
            os.lstat(self._file(name))
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def _write(self, file: Path, said: Mapping[str, str]) -> None:
        # Written in place, not renamed into place: the file counts from the moment it exists, whatever it contains.
        with self._create(file) as out:
            out.write(inert_json(msgspec.json.encode(said).decode()).encode())
            out.flush()
            os.fsync(out.fileno())
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _create(self, file: Path) -> BinaryIO:
        """Create the file in its folder, which a process that switches another one off may be removing at the same time."""
        for _ in range(_TRIES):
            # Not `exist_ok`: that checks again, and fails if the folder was removed in between.
            with suppress(FileExistsError):
                self.folder.mkdir()
            with suppress(FileNotFoundError):
                return self._open(file)
        return self._open(file)

    def _open(self, file: Path) -> BinaryIO:
        """Create the file anew. A link, pipe or the like in its place is removed first, so its target is never written to."""
        with self._opened() as folder:
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(file.name, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.unlink(file.name, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            return open(os.open(file.name, flags, 0o666, dir_fd=folder), "wb")

    @contextmanager
    def _opened(self) -> Generator[int]:
        """Open the folder itself, not what a link in its place leads to."""
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield folder
        finally:
            os.close(folder)


def latched(switch: str, reason: str = "") -> Latched:
    """Return the error for an effect that a kill switch keeps from beginning.

    Args:
        switch: `@all` or the name of a harness.
    """
    whom = "all harnesses" if switch == ALL else repr(switch)
    because = f" ({reason})" if reason else ""
    off = f"`orchestrator kill-switch off{'' if switch == ALL else f' --harness {switch}'}`"
    return Latched(f"the kill switch is on for {whom}{because}; {off} lifts it")


class MemoryKillSwitch(KillSwitch):
    """The kill switch of a store that is not a file: in memory, for this run only."""

    def __init__(self) -> None:
        super().__init__("memory")
        self._on: dict[str, dict[str, str]] = {}

    def check(self, name: str) -> None:
        for switch in (ALL, name):
            if switch in self._on:
                raise Latched(
                    f"the kill switch is on for {'all harnesses' if switch == ALL else repr(switch)}; take it off first"
                )

    def put_on(self, name: str = ALL, **said: str) -> None:
        self._on[name] = said

    def take_off(self, name: str = ALL) -> bool:
        return self._on.pop(name, None) is not None

    def which(self) -> Mapping[str, Mapping[str, Any]]:
        return self._on


def _file_name(name: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}.{blake2b(name.encode(), digest_size=8).hexdigest()}"


def _name_of(file: Path, fields: Mapping[str, Any]) -> str:
    """Return which kill switch a file is. Its text is believed only if the file would have that name: it may be a long one."""
    name = str(fields.get("name") or "")
    return name if _file_name(name) == file.name else file.name


def _read(file: Path) -> dict[str, Any]:
    """Return the recorded text of a kill switch; empty if the file was made by hand."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as said:
            fields = msgspec.json.decode(said.read(_LONGEST_TEXT))
    except (OSError, msgspec.DecodeError):
        return {}
    return cast(dict[str, Any], fields) if isinstance(fields, dict) else {}


Latch = KillSwitch
"""Earlier name of `KillSwitch`."""
NoLatch = MemoryKillSwitch
