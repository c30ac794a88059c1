"""The result of a proof: findings, and the account of a walk along the chain from which they are made. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

from orchestrator.store.integrity.residue import NOT_PRUNED, Base, Residue

Row: TypeAlias = tuple[Any, ...]
Place: TypeAlias = tuple[str, tuple[Any, ...]]
"""A table and the key of a row in it."""

OTHER_HEAD = "give one that was kept elsewhere with --head"
COPY = "restore the store from a copy"
REPAIR = "orchestrator doctor --repair"
REPAIRED = "repaired"
"""Kind of the record of a repair."""


@frozen
class Finding:
    """A difference from what was written."""

    what: str
    """`edited`, `dropped`, `inserted`, `reordered`, `cut off` or `damaged`."""
    where: str
    """`record`, `seal`, `head`, `file`, `value` (a large value in a file beside it), or the name of a table."""
    text: str
    """Message with the remedy."""
    seq: int | None = None
    """`seq` of the record, if it concerns one."""
    harness: str = ""
    step: int | None = None
    kind: str = ""


@frozen
class LostNote:
    """A residue whose note is missing from every seal."""

    residue: Residue
    moved_by: int
    """Position of the seal that moved the base beyond it."""

    @property
    def what(self) -> str:
        """Description of the defect."""
        residue = self.residue
        return (
            f"known defect of an earlier version: pruning again dropped the note of seal {residue.position}, which covers "
            f"what an earlier prune left of records {residue.first_seq} to {residue.last_seq}"
        )

    @property
    def unproven(self) -> str:
        """What can no longer be proven."""
        return (
            f"the hash of seal {self.residue.position} was only in that note: whether records {self.residue.first_seq} to "
            f"{self.residue.last_seq} were edited, dropped or inserted, with the seal, between the defect and the repair "
            "cannot be told"
        )


@frozen
class Proof:
    """The result of verifying a store."""

    findings: Sequence[Finding]
    """Findings in order of their records; those without a record come last."""
    seals: int = 0
    records: int = 0
    """Number of the last sealed record."""
    unsealed: int = 0
    """Number of records that are not sealed yet."""
    head: str = ""
    """Hash of the last seal."""
    notices: Sequence[str] = ()
    """Remarks that are not findings."""
    pruned: Base = NOT_PRUNED
    """Where the chain begins, if the store was pruned."""
    lost_note: LostNote | None = None
    """The cause of the only finding, if that is a known defect of an earlier version and not tampering."""


@frozen
class Seal:
    position: int
    first_seq: int
    last_seq: int
    notes: list[tuple[str, tuple[Any, ...], str | None]]
    text: str
    hash: str
    marks: dict[int, int]
    """Marks of the records, by their number."""


@define
class Account:
    """What a walk along the chain has found."""

    found: list[Finding] = field(factory=list[Finding])
    notices: list[str] = field(factory=list[str])
    noted: dict[Place, str] = field(factory=dict[Place, str])
    """The last noted hash of each row."""
    hashes: dict[int, tuple[str, int]] = field(factory=dict[int, tuple[str, int]])
    """Hash and last record of each seal."""
    expected: dict[int, int] = field(factory=dict[int, int])
    """Expected marks of the records under seals that do not match."""
    actual: dict[int, int] = field(factory=dict[int, int])
    """Actual marks of the records under seals that do not match."""
    tail: dict[int, int] = field(factory=dict[int, int])
    """Marks of the unsealed records."""
    repairs: list[int] = field(factory=list[int])
    """Numbers of the records of repairs."""
    sealed: int = 0
    base: Base = NOT_PRUNED
    """Where the chain begins."""

    def add(self, what: str, where: str, text: str, seq: int | None = None) -> None:
        self.found.append(Finding(what, where, text, seq))
