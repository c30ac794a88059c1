"""Versions of states, and deriving the state after many steps from an earlier one; the same for every store.

`derive` costs the size of the state plus a little for each delta, not their product. A sliding window loses its first item at
every step: removed items are skipped, and deleted once they make up half of the list.

Functions that take a connection access a SQLite store within the caller's transaction.
"""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, cast

import msgspec

from harnesses.data.delta import Delta
from orchestrator.codec import encode
from orchestrator.errors import StoreCorrupt, UsageError
from orchestrator.store.encryption import FieldCipher, Plain, reveal_delta
from orchestrator.store.file.schema import ADD_VERSION, GOES_ON_WITH, VERSIONS_OF
from orchestrator.store.store_protocol import Migrate, VersionRow


def version_at(rows: Sequence[VersionRow], step: int) -> int:
    """Return the version of the state after a step; a migration after that step does not change it."""
    return max(((row.step, row.version) for row in versions_until(rows, step)), default=(0, 1))[1]


def versions_until(rows: Sequence[VersionRow], step: int) -> tuple[VersionRow, ...]:
    """Return the rows that apply to the states up to a step."""
    return tuple(row for row in rows if row.step < step or not row.seq)


def check_migrate(migrate: Migrate, head: int, version: int) -> None:
    """Raise if a migration does not follow from the records.

    Args:
        head: the last step of the harness.
        version: version of the state that it continues with.

    Raises:
        UsageError: it does not.
    """
    if (migrate.step, migrate.from_version) != (head, version) or migrate.to_version <= version:
        raise UsageError(
            f"harness number {migrate.harness}: a migration of version {migrate.from_version} after step {migrate.step} to "
            f"{migrate.to_version}: expected one of version {version} after step {head} to a later one; start it again"
        )


def migration_body(migrate: Migrate) -> str:
    """Return the body of the record."""
    return encode({"from_version": migrate.from_version, "to_version": migrate.to_version})


def versions_of(db: sqlite3.Connection, harness: int) -> list[VersionRow]:
    """Return the rows of one harness, in order of step and version."""
    return [VersionRow(*row) for row in db.execute(VERSIONS_OF, (harness,))]


def add_version(db: sqlite3.Connection, harness: int, row: VersionRow) -> None:
    """Record that states have a version from here on."""
    db.execute(ADD_VERSION, (harness, *row))


def goes_on_with(db: sqlite3.Connection, harness: int, head: int, cipher: FieldCipher) -> tuple[int, str | None]:
    """Return the version of the state that a harness continues with, and that state if it was migrated after step `head`."""
    step, version, state = db.execute(GOES_ON_WITH, (harness,)).fetchone() or (0, 1, None)
    return version, None if state is None or step < head else cipher.reveal("state", state)


class _Changed(msgspec.Struct):
    """The field of a step's body that is needed here; the rest is skipped without being decoded."""

    delta: Delta | str
    """Text if it is encrypted."""


class _Window(list[Any]):
    """A list whose first items were removed, but not deleted yet."""

    __slots__ = ("gone",)
    gone: int


_UNREAD = object()
_UNREADABLE = (msgspec.DecodeError, KeyError, IndexError, TypeError, AttributeError, ValueError)
_read_steps = msgspec.json.Decoder(list[_Changed]).decode
_read = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode


def derive(state: str, pages: Iterable[str], cipher: FieldCipher | None = None) -> str:
    """Return the JSON of the state after some steps.

    Args:
        state: JSON of the state before them.
        pages: bodies of their records, oldest first, several in each text, separated by commas.
        cipher: cipher of the store; None if nothing in it is encrypted.

    Raises:
        StoreCorrupt: a body is not valid.
    """
    try:
        with _no_collection():
            return _derive(state, pages, cipher or Plain("the store"))
    except _UNREADABLE as error:
        raise StoreCorrupt(
            f"a state cannot be read back: {error}; it was changed by something else, restore the store from a copy"
        ) from error


def _derive(state: str, pages: Iterable[str], cipher: FieldCipher) -> str:
    data: Any = _UNREAD
    windows: list[_Window] = []
    for page in pages:
        steps = _read_steps(f"[{page}]")
        if not steps:
            raise ValueError("a step is empty")
        for changed in steps:
            if changed.delta:
                delta = reveal_delta(cipher, changed.delta)
                data = _apply_to_state(_read(state) if data is _UNREAD else data, delta, windows)
    if data is _UNREAD:
        return state
    for window in windows:
        _take_out(window)
    return str(_write(data), "utf-8")


@contextmanager
def _no_collection() -> Generator[None]:
    """Disable garbage collection: thousands of small live dicts would trigger it again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _apply_to_state(data: Any, delta: Delta, windows: list[_Window]) -> Any:
    if "value" in delta:
        return delta["value"]
    if isinstance(data, dict):
        return _apply(cast(Any, data), delta, windows)
    return _apply({"state": data}, delta, windows)["state"]


def _apply(data: Any, delta: Delta, windows: list[_Window]) -> Any:
    """Return `data` with `delta` applied; the grammar is that of `harnesses.data.delta`."""
    if data.__class__ is not dict:
        return _apply_to_list(data, delta, windows)
    for key in delta.get("drop", ()):
        del data[key]
    if "set" in delta:
        data.update(delta["set"])
    if "in" in delta:
        for key, inner in delta["in"].items():
            data[key] = _apply(data[key], inner, windows)
    if "order" in delta:
        data = {key: data[key] for key in delta["order"]}
    return data


def _apply_to_list(data: Any, delta: Delta, windows: list[_Window]) -> Any:
    if "keep" in delta:
        data = _keep_slice(data, windows, *delta["keep"])
    gone = data.gone if isinstance(data, _Window) else 0
    for key, value in delta.get("set", {}).items():
        data[int(key) + gone] = value
    for key, inner in delta.get("in", {}).items():
        at = int(key) + gone
        data[at] = _apply(data[at], inner, windows)
    if "append" in delta:
        data.extend(delta["append"])
    return data


def _keep_slice(data: Any, windows: list[_Window], start: int, stop: int) -> Any:
    """Return a list reduced to `data[start:stop]`."""
    gone = data.gone if isinstance(data, _Window) else 0
    del data[gone + stop :]
    if not start:
        return data
    if not isinstance(data, _Window):
        data = _Window(data)
        windows.append(data)
    data.gone = gone + start
    if data.gone * 2 > len(data):
        _take_out(data)
    return data


def _take_out(window: _Window) -> None:
    del window[: window.gone]
    window.gone = 0
