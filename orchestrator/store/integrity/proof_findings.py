"""What a proof says: findings, and the account of a walk along the chain that they are made of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

from orchestrator.store.integrity.residue import NOT_PRUNED, Base, Residue

Row: TypeAlias = tuple[Any, ...]
Place: TypeAlias = tuple[str, tuple[Any, ...]]
"""A table and the key of a row in it."""

OTHER_HEAD = "give one that was noted elsewhere with --head"
COPY = "restore the store from a copy"
REPAIR = "orchestrator doctor --repair"
REPAIRED = "repaired"
"""Kind of the record that tells of a repair."""


@frozen
class Finding:
    """Something that is not what was written."""

    what: str
    """`edited`, `dropped`, `inserted`, `reordered`, `cut off` or `damaged`."""
    where: str
    """`record`, `seal`, `head`, `file`, or the name of a table."""
    text: str
    """For people, and what to do."""
    seq: int | None = None
    """Of the record, if it concerns one."""
    harness: str = ""
    step: int | None = None
    kind: str = ""


@frozen
class LostNote:
    """A residue of which no seal says that it is there, and should."""

    residue: Residue
    moved_by: int
    """The seal that moved the base beyond it."""

    @property
    def what(self) -> str:
        """What is wrong, for people."""
        residue = self.residue
        return (
            f"known defect of an earlier version: pruning again dropped the note of seal {residue.position}, which covers "
            f"what an earlier prune has left of records {residue.first_seq} to {residue.last_seq}"
        )

    @property
    def unproven(self) -> str:
        """What nobody can know any more."""
        return (
            f"the hash of seal {self.residue.position} was only in that note: whether records {self.residue.first_seq} to "
            f"{self.residue.last_seq} were edited, dropped or inserted, with the seal, between the defect and the repair "
            "cannot be told"
        )


@frozen
class Proof:
    """What there is, and what is wrong with it."""

    findings: Sequence[Finding]
    """In order of the records; what concerns none comes last."""
    seals: int = 0
    records: int = 0
    """Number of the last record under a seal."""
    unsealed: int = 0
    """Records that have no seal yet."""
    head: str = ""
    """Hash of the last seal."""
    notices: Sequence[str] = ()
    """What is worth knowing and not wrong."""
    pruned: Base = NOT_PRUNED
    """Where the chain begins, if the store was pruned."""
    lost_note: LostNote | None = None
    """What the only finding comes from, if that is a defect of an earlier version rather than somebody's deed."""


@frozen
class Seal:
    position: int
    first_seq: int
    last_seq: int
    notes: list[tuple[str, tuple[Any, ...], str | None]]
    text: str
    hash: str
    marks: dict[int, int]
    """Of each record, by its number."""


@define
class Account:
    """What a walk along the chain has seen."""

    found: list[Finding] = field(factory=list[Finding])
    notices: list[str] = field(factory=list[str])
    noted: dict[Place, str] = field(factory=dict[Place, str])
    """The last hash of each row."""
    hashes: dict[int, tuple[str, int]] = field(factory=dict[int, tuple[str, int]])
    """Hash and last record of each seal."""
    expected: dict[int, int] = field(factory=dict[int, int])
    """Marks of the records under seals that do not fit, as they were …"""
    actual: dict[int, int] = field(factory=dict[int, int])
    """… and as they are."""
    tail: dict[int, int] = field(factory=dict[int, int])
    """Marks of the records without a seal."""
    repairs: list[int] = field(factory=list[int])
    """Numbers of the records that tell of a repair."""
    sealed: int = 0
    base: Base = NOT_PRUNED
    """Where the chain begins."""

    def add(self, what: str, where: str, text: str, seq: int | None = None) -> None:
        self.found.append(Finding(what, where, text, seq))
