"""Size limits of one record in the store: a step, an effect, a message or a state. Pure.

Invariant: a record that is too large raises an error in the harness that made it, before any of it is written.
"""

from __future__ import annotations

from harnesses.errors import RecordTooLarge, Unstorable

MAX_RECORD_BYTES = 16_000_000
"""Default size limit of one record, in bytes: writing one of this size takes about 0.1 s, which blocks all harnesses."""
CEILING_BYTES = 300_000_000
"""Highest limit that can be configured, in bytes. A SQLite row holds at most 1,000,000,000: a body and a state, encrypted."""
_WAY_OUT = "keep large data in a file and record where it is, or choose a higher max_record_bytes"


def check_size(what: str, text: str, most: int) -> None:
    """Check the size of a text before it is recorded.

    Raises:
        RecordTooLarge: it has more bytes than `most`.
    """
    # A character takes at most four bytes, so for most texts the length decides.
    if len(text) * 4 > most and (size := len(text.encode())) > most:
        raise too_large(what, size, most)


def too_large(what: str, size: int, most: int, parts: str = "") -> RecordTooLarge:
    """Return the error for a record of this size."""
    of = f" ({parts})" if parts else ""
    return RecordTooLarge(f"{what} is {size:,} bytes large{of}: expected at most {most:,}, max_record_bytes; {_WAY_OUT}")


ENCRYPTED = "encrypted:v1:"
"""Prefix of a field that a store has encrypted."""


def check_not_marked(what: str, text: str) -> None:
    """Refuse the JSON of a value that would be mistaken for an encrypted field and could not be decrypted.

    Raises:
        Unstorable: the text begins with `ENCRYPTED`.
    """
    if text.startswith(f'"{ENCRYPTED}'):
        raise Unstorable(
            f"{what}: expected a text that does not begin with {ENCRYPTED!r}, as encrypted fields do; put it in a list"
        )
