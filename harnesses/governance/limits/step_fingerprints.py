"""The fingerprint of a step: of the state after it, its input and its output. Pure.

The laws: two steps have the same fingerprint if, and only if (but for a chance of 2^-64), they were given the same, made the
same and left the same state, fields that are ignored left out; it is the same in every process; and making one costs what has
changed, not what there is: see `digests`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from harnesses.data.delta import Delta
from harnesses.governance.limits.state_digests import Keyed, encode, field_names, is_dict, names_of, value_of

SIDES = ("input.", "output.")
"""What the names of fields that are not of the state begin with."""
_UNREADABLE = (
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    LookupError,
    AttributeError,
    msgspec.MsgspecError,
)


class Fingerprints:
    """Follows the state of one harness.

    Args:
        ignore: what is no progress: top-level fields of the state, and of input and output as `input.name`, `output.name`;
            `input.*` is all of it.
    """

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        self._ignore = frozenset(ignore)
        self._sides = tuple(
            frozenset(name.removeprefix(side) for name in self._ignore if name.startswith(side)) for side in SIDES
        )
        self._state: Keyed | None = None

    def forget(self) -> None:
        """Take the next state as it is: what is known of the one before is not what it began from."""
        self._state = None

    def take(self, input: object, output: object, delta: Delta, state: Callable[[], Any]) -> str | None:
        """Return the fingerprint of a step; None if it cannot be taken, and so is that of no other.

        Args:
            delta: what it has changed since the last one that was taken.
            state: gives the whole state after it.
        """
        try:
            if self._state is None or "value" in delta:
                self._state = Keyed(state(), ignore=self._ignore)
            elif delta:
                self._state.follow(delta, state())
            made = hashlib.blake2b(b"%x" % self._state.digest, digest_size=8)
            made.update(encode(tuple(map(_without, (input, output), self._sides))))
            return made.hexdigest()
        except _UNREADABLE:
            self.forget()
            return None


def _without(value: Any, names: frozenset[str]) -> Any:
    """Return what is left of an input or output without fields that are ignored."""
    if not names:
        return value
    if "*" in names:
        return None
    if not is_dict(value) and not field_names(value):
        return value
    return {str(name): value_of(value, name) for name in names_of(value) if str(name) not in names}
