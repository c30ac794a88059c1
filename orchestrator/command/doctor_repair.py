"""`doctor --repair`: brings a store to this version's schema, and mends what a known defect has left in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orchestrator.command.lines import json_line
from orchestrator.command.writing import user_name
from orchestrator.errors import OrchestratorError
from orchestrator.store.proof_account import LostNote
from orchestrator.store.repair import repair, upgrade
from orchestrator.store.schema import VERSION


def repair_lines(store: Path, *, as_json: bool) -> Iterator[str]:
    """Repair a store, and yield what was done.

    Raises:
        OrchestratorError: its records were left as they are; it may have been upgraded.
    """
    before = upgrade(store)
    if before is not None and not as_json:
        yield f"{store} upgraded from schema version {before} to {VERSION}"
    try:
        lost = repair(store, by=user_name())
    except OrchestratorError:
        if before is not None and as_json:
            yield _json(store, before, None)
        raise
    if as_json:
        yield _json(store, before, lost)
    elif lost is None:
        yield f"{store} is untouched: there is nothing to repair"
    else:
        yield f"{store} repaired, and untouched now: {lost.what}"
        yield f"not proven: {lost.unproven}; a record of kind `repaired` says so"


def _json(store: Path, before: int | None, lost: LostNote | None) -> str:
    fields = {} if lost is None else _fields(lost)
    return json_line({"store": str(store), "schema_before": before, "repaired": lost is not None, **fields})


def _fields(lost: LostNote) -> dict[str, object]:
    residue = lost.residue
    return {
        "found": lost.what,
        "unproven": lost.unproven,
        "residue": residue.position,
        "first_seq": residue.first_seq,
        "last_seq": residue.last_seq,
    }
