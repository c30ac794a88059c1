"""The kill switch for effects, which holds although the program's loop is wedged.

It is a folder beside the store, looked at before every effect begins; whoever can write there can put it on, with a command
or by hand. What is not there is off, and what cannot be looked at is on.

    run.db-latch/@all      no effect of any harness may begin
    run.db-latch/NAME      none of that harness
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from harnesses.diagnostics.control_characters import inert_json
from harnesses.errors import Latched
from orchestrator.errors import UsageError

ALL = "@all"
"""What the kill switch for all is called; no harness can be."""
_LONGEST = 100
_TRIES = 100
_LONGEST_TEXT = 100_000
"""Bytes of what is said of a kill switch."""


class KillSwitch:
    """The kill switch of one store.

    Args:
        store: the store's file.
    """

    def __init__(self, store: str | Path) -> None:
        self.folder = Path(f"{Path(store).resolve()}-latch")
        self._folder = str(self.folder)

    def check(self, name: str) -> None:
        """Return if an effect of the harness called `name` may begin.

        Raises:
            Latched: it may not.
        """
        try:
            os.lstat(self._folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Latched(f"{self.folder} cannot be looked at: {error.strerror}; so no effect may begin") from error
        for switch in (ALL, name):
            if self._is_on(switch):
                whom = "all harnesses" if switch == ALL else repr(switch)
                way_out = "" if switch == ALL else f" --harness {switch}"
                off = f"`orchestrator kill-switch off{way_out}`"
                raise Latched(f"the kill switch is on for {whom}{self._because(switch)}; {off} lifts it")

    def put_on(self, name: str = ALL, **said: str) -> None:
        """Put it on, for one harness or for all. When this returns no further effect begins.

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
        """Take it off; return whether it was on."""
        try:
            self._file(name).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise UsageError(
                f"the kill switch {self._file(name)} cannot be taken off: {error.strerror}; remove the file"
            ) from error
        with suppress(OSError):
            self.folder.rmdir()
        return True

    def which(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is latched, `@all` or the name of a harness, and what was said of it."""
        try:
            files = sorted(self.folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        said = [_read(file) for file in files]
        return {str(fields.get("name") or file.name): fields for file, fields in zip(files, said, strict=True)}

    def _file(self, name: str) -> Path:
        if len(name) > _LONGEST:
            name = f"{name[:_LONGEST]}.{blake2b(name.encode(), digest_size=8).hexdigest()}"
        return self.folder / name

    def _is_on(self, name: str) -> bool:
        try:
            # Whatever is there by that name counts, also a link that leads nowhere.
            os.lstat(self._file(name))
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def _because(self, name: str) -> str:
        reason = _read(self._file(name)).get("reason")
        return f" ({reason})" if reason else ""

    def _write(self, file: Path, said: Mapping[str, str]) -> None:
        # In place, not by renaming: it counts from the moment it is there, whatever is in it.
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
        """Open the file in its folder, which whoever takes another kill switch off may be removing at this moment."""
        for _ in range(_TRIES):
            # Not `exist_ok`: that looks again, and fails if the folder has gone meanwhile.
            with suppress(FileExistsError):
                self.folder.mkdir()
            with suppress(FileNotFoundError):
                return self._open(file)
        return self._open(file)

    def _open(self, file: Path) -> BinaryIO:
        """Open the file anew. A link, a pipe or the like in its place is removed: nothing is written where it leads to."""
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(file.name, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.unlink(file.name, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            return open(os.open(file.name, flags, 0o666, dir_fd=folder), "wb")
        finally:
            os.close(folder)


class MemoryKillSwitch(KillSwitch):
    """The kill switch of a store that is not a file: in memory, for this run alone."""

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


def _read(file: Path) -> dict[str, Any]:
    """Return what a kill switch says; nothing if it was made by hand."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as said:
            fields = msgspec.json.decode(said.read(_LONGEST_TEXT))
    except (OSError, msgspec.DecodeError):
        return {}
    return cast(dict[str, Any], fields) if isinstance(fields, dict) else {}


Latch = KillSwitch
"""Its earlier name."""
NoLatch = MemoryKillSwitch
