"""How large one record may be: what a step, an effect, a message or a state may weigh in the store. Pure.

The law: what is too large is an error of the harness that made it, raised before anything of it is written.
"""

from __future__ import annotations

from harnesses.errors import RecordTooLarge, Unstorable

MAX_RECORD_BYTES = 16_000_000
"""Bytes of one record, unless another limit is chosen: writing one down takes about 0.1 s, which all others wait for."""
CEILING_BYTES = 300_000_000
"""The highest limit that can be chosen. SQLite keeps 1,000,000,000 bytes in a row: a body and a state, encrypted."""
_WAY_OUT = "keep large data in a file and record where it is, or choose a higher max_record_bytes"


def check_size(what: str, text: str, most: int) -> None:
    """Make sure that a text may be recorded.

    Raises:
        RecordTooLarge: it has more bytes than `most`.
    """
    # A character has four bytes at most: of most texts nothing but the length is looked at.
    if len(text) * 4 > most and (size := len(text.encode())) > most:
        raise too_large(what, size, most)


def too_large(what: str, size: int, most: int, parts: str = "") -> RecordTooLarge:
    """Return the error for something of a size."""
    of = f" ({parts})" if parts else ""
    return RecordTooLarge(f"{what} is {size:,} bytes large{of}: expected at most {most:,}, max_record_bytes; {_WAY_OUT}")


ENCRYPTED = "encrypted:v1:"
"""What a field begins with that a store has encrypted."""


def check_not_marked(what: str, text: str) -> None:
    """Refuse the JSON of a value that would be taken for an encrypted one, which nobody could decrypt.

    Raises:
        Unstorable: it is one.
    """
    if text.startswith(f'"{ENCRYPTED}'):
        raise Unstorable(
            f"{what}: expected a text that does not begin with {ENCRYPTED!r}, as encrypted fields do; put it in a list"
        )
