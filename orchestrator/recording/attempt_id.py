"""One attempt of a harness, as the store knows it. A value."""

from __future__ import annotations

from attrs import frozen


@frozen
class AttemptId:
    """What every row that an attempt has recorded says of it."""

    name: str
    """Of the harness."""
    number: int
    """Of the harness in the store."""
    epoch: int
    """Of its ownership: a commit of an earlier one is refused."""
    attempt: int
