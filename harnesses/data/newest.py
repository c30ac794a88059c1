"""Dictionaries that keep their newest values. Pure."""

from __future__ import annotations

from typing import TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


def keep_newest(known: dict[KeyT, ValueT], key: KeyT, value: ValueT, most: int) -> None:
    """Put a value at the end of a dictionary, and remove the oldest of more than `most`."""
    known.pop(key, None)
    known[key] = value
    drop_oldest(known, most)


def drop_oldest(known: dict[KeyT, ValueT], most: int) -> None:
    """Remove the oldest of more than `most` values."""
    while len(known) > most:
        del known[next(iter(known))]
