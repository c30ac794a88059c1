"""Limits on the size of what is merged: a file of data that an agent has left does not get into the history unnoticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import Attribute, field, frozen

from harnesses.features.errors import InvalidRequest


def _check(owner: object, attribute: Attribute[Any], value: object) -> None:
    if value is not None and (type(value) is not int or value < 0):
        raise InvalidRequest(f"MergeLimits: {attribute.name}: expected bytes from 0 up, or None for no limit, was {value!r}")


@frozen(kw_only=True)
class MergeLimits:
    """The most that one try may add or change, in bytes; None for no limit."""

    file_bytes: int | None = field(default=5_000_000, validator=_check)
    """Of one file."""
    binary_bytes: int | None = field(default=1_000_000, validator=_check)
    """Of one file that is not text: one with a zero byte, as git decides it."""
    total_bytes: int | None = field(default=20_000_000, validator=_check)
    """Of all files together."""

    def findings(self, sizes: Mapping[str, tuple[int, bool]]) -> list[str]:
        """Return what exceeds the limits.

        Args:
            sizes: of each added or changed file its bytes, and whether it is text.
        """
        found: list[str] = []
        for path, (size, is_text) in sizes.items():
            for name, most in (("file_bytes", self.file_bytes), ("binary_bytes", None if is_text else self.binary_bytes)):
                if most is not None and size > most:
                    what = "a file" if name == "file_bytes" else "a file that is not text"
                    found.append(f"{path}: {what} of {size:,} bytes: expected at most {most:,}; leave it out, or raise {name}")
                    break
        total = sum(size for size, _ in sizes.values())
        if not found and self.total_bytes is not None and total > self.total_bytes:
            found.append(f"{len(sizes)} files have {total:,} bytes: expected at most {self.total_bytes:,}; raise total_bytes")
        return found
