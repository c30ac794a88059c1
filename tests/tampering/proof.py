"""Tampering, again and again: what both verifiers say of each."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from attrs import define, field

import orchestrator
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import Proof, prove

from .deeds import tamper
from .stores import Base, copy, dump

ALONE = Path(orchestrator.__file__).with_name("verify_alone.py")
_alone: Callable[[Path, str | None], tuple[list[Any], str]] = runpy.run_path(str(ALONE))["verify"]


@define
class Tally:
    """What came of it."""

    found: int = 0
    nothing: int = 0
    """Tamperings that changed nothing of what the store says, each value of each row, but for records without a seal."""
    missed: list[str] = field(factory=list[str])
    apart: list[str] = field(factory=list[str])
    """Where the two verifiers did not say the same."""
    deeds: Counter[str] = field(factory=Counter[str])
    named: int = 0
    """Tamperings of which a record was named."""

    @property
    def tamperings(self) -> int:
        return self.found + len(self.missed)

    def __str__(self) -> str:
        return (
            f"{self.tamperings} tamperings: {self.found} found, {len(self.missed)} missed; a record named "
            f"of {self.named}; {self.nothing} more changed nothing; the two verifiers differed in {len(self.apart)}"
        )


def judge(path: Path) -> tuple[Proof, list[Any]]:
    """Return what both verifiers say."""
    head = head_path(path)
    text = head.read_text("utf-8", "replace") if head.exists() else None
    return prove(path, text), _alone(path, text)[0]


def tamper_often(
    bases: Sequence[Base], folder: Path, count: int, seed: int, say: Callable[[str], None] | None = None
) -> Tally:
    """Tamper until `count` tamperings have changed something."""
    tally, number = Tally(), 0
    before = {base.name: dump(base.path, base) for base in bases}
    while tally.tamperings < count:
        number += 1
        chance = Random(f"{seed}/{number}")
        base = chance.choice(bases)
        path = copy(base, folder / "tampered.db")
        name = tamper(path, base, chance)
        _count(tally, f"{name} ({seed}/{number}, {base.name})", name, path, same=dump(path, base) == before[base.name])
        if say is not None and number % 500 == 0:
            say(str(tally))
    return tally


def _count(tally: Tally, told: str, name: str, path: Path, *, same: bool) -> None:
    proof, alone = judge(path)
    first = proof.findings[0] if proof.findings else None
    if (first and (first.seq, first.what)) != (tuple(alone[0][:2]) if alone else None):
        tally.apart.append(f"{told}: {first} and {alone[:1]}")
    if first is None:
        if same:
            tally.nothing += 1
        else:
            tally.missed.append(told)
        return
    if same:
        tally.nothing += 1
        return
    tally.found += 1
    tally.deeds[name.partition(",")[0]] += 1
    tally.named += first.seq is not None
