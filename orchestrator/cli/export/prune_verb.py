"""The verb `prune`: take away old steps and records, and say of each harness what goes and what stays."""

from __future__ import annotations

import argparse
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from harnesses.timing.clock import now_us
from orchestrator.cli.value_lines import columns, json_line
from orchestrator.store.file.run_lock import running_on
from orchestrator.store.pruning.prune_plan import Floor, Rule
from orchestrator.store.pruning.prune_store import Pruned
from orchestrator.text.terminal_text import one_line

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LONGEST_S = 1e10


def age(text: str) -> float:
    """Return an age in seconds: `90d`, `12h`, `1.5w`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a number and one of s, m, h, d, w, such as 30d, was {text!r}")
    value = float(match[1]) * _UNITS[match[2]]
    if value > _LONGEST_S:
        raise argparse.ArgumentTypeError(f"expected at most 300 years, was {text!r}")
    return value


def rule_of(keep: int | None, older_than_s: float | None, context: int) -> Rule:
    """Return what is to be kept, as of now."""
    return Rule(keep=keep, since_us=None if older_than_s is None else now_us() - int(older_than_s * 1e6), context=context)


def prune_lines(store: str, pruned: Pruned, *, dry: bool, as_json: bool) -> Iterator[str]:
    """Yield what goes of each harness and what stays, then all of it together."""
    if as_json:
        yield from (json_line({"harness": floor.harness, **_fields(pruned, floor)}) for floor in pruned.floors)
        yield json_line({"dry_run": dry, **_sums(pruned), "base_seq": pruned.base.last_seq})
        return
    goes = "WOULD GO" if dry else "GONE"
    rows = [_cells(pruned, floor) for floor in pruned.floors]
    yield from columns(("HARNESS", f"STEPS {goes}", "RECORDS", "BYTES", "STAYS FROM STEP", "FOR"), rows)
    sums = _sums(pruned)
    would = "would be " if dry else ""
    yield f"{store}: {sums['steps']} steps in {sums['records']} records {would}taken away, {sums['bytes']:,} bytes of them"


def space_of(store: Path) -> str:
    """Return what to say of the space that is free within the file."""
    with closing(sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True)) as db:
        (pages,) = db.execute("PRAGMA freelist_count").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    return f"{pages * size:,} bytes are free within {store}, and are used again; --vacuum gives them back"


def vacuum(store: Path) -> str:
    """Give the free space back, unless a program runs on the store; return what to say of it."""
    if pids := running_on(store.resolve()):
        return f"{store} is not made smaller: process {pids[0] or '?'} runs on it; {space_of(store)}"
    before = store.stat().st_size
    try:
        with closing(sqlite3.connect(store, timeout=0.0, isolation_level=None)) as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        return f"{store} is not made smaller: {one_line(str(error))}; {space_of(store)}"
    return f"{store} has {store.stat().st_size:,} bytes now, {before - store.stat().st_size:,} fewer"


def _fields(pruned: Pruned, floor: Floor) -> Mapping[str, Any]:
    return {
        "steps": pruned.steps.get(floor.number, 0),
        "records": pruned.records.get(floor.number, 0),
        "bytes": pruned.bytes.get(floor.number, 0),
        "first_step_kept": floor.first,
        "last_step": floor.steps,
        "kept_because": floor.why.value,
        "older_kept": dict(sorted(pruned.kept.get(floor.number, {}).items())),
    }


def _cells(pruned: Pruned, floor: Floor) -> tuple[str, ...]:
    fields = _fields(pruned, floor)
    kept = ", ".join(f"{count} {kind}" for kind, count in fields["older_kept"].items())
    why = f"{floor.why.value}{f'; of older records stay {kept}' if kept else ''}"
    numbers = (f"{fields['steps']}", f"{fields['records']}", f"{fields['bytes']:,}", f"{floor.first} of {floor.steps}")
    return (floor.harness, *numbers, one_line(why, 300))


def _sums(pruned: Pruned) -> dict[str, int]:
    return {
        "steps": sum(pruned.steps.values()),
        "records": sum(pruned.records.values()),
        "bytes": sum(pruned.bytes.values()),
    }
