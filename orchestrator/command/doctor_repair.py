"""`doctor --repair`: mends what a known defect of an earlier version has left in a store, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orchestrator.command.lines import json_line
from orchestrator.command.writing import user_name
from orchestrator.store.proof_account import LostNote
from orchestrator.store.repair import repair


def repair_lines(store: Path, *, as_json: bool) -> Iterator[str]:
    """Repair a store, and yield what was done.

    Raises:
        OrchestratorError: it was left as it is.
    """
    lost = repair(store, by=user_name())
    if as_json:
        yield json_line({"store": str(store), "repaired": lost is not None, **(_fields(lost) if lost is not None else {})})
    elif lost is None:
        yield f"{store} is untouched: there is nothing to repair"
    else:
        yield f"{store} repaired, and untouched now: {lost.what}"
        yield f"not proven: {lost.unproven}; a record of kind `repaired` says so"


def _fields(lost: LostNote) -> dict[str, object]:
    residue = lost.residue
    return {
        "found": lost.what,
        "unproven": lost.unproven,
        "residue": residue.position,
        "first_seq": residue.first_seq,
        "last_seq": residue.last_seq,
    }
