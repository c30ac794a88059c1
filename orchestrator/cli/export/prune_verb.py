"""The verb `prune`: deletes old steps and records, and reports for each harness what goes and what stays."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from harnesses.timing.clock import now_us
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Count, Name, StepNumber, converter, print_all
from orchestrator.errors import UsageError
from orchestrator.operating.store_writing import user_name
from orchestrator.store.file.run_lock import running_on
from orchestrator.store.file.server_copy import server_of, shown_place
from orchestrator.store.places.server_prune import prune_server, survey_server
from orchestrator.store.places.store_location import place_of
from orchestrator.store.pruning.prune_plan import LOOKED_BACK_AT, Floor, Rule
from orchestrator.store.pruning.prune_store import Pruned, survey
from orchestrator.store.pruning.prune_store import prune as prune_store
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import columns, json_line

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LONGEST_S = 1e10


def age(text: str) -> float:
    """Return an age in seconds: `90d`, `12h`, `1.5w`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])", text)
    if match is None:
        raise ValueError(f"expected a number and one of s, m, h, d, w, such as 30d, got {text!r}")
    value = float(match[1]) * _UNITS[match[2]]
    if value > _LONGEST_S:
        raise ValueError(f"expected at most 300 years, got {text!r}")
    return value


_read_age = converter(age)


def prune(
    *names: Name,
    older_than: Annotated[float | None, Parameter(converter=_read_age, metavar="AGE")] = None,
    keep: Annotated[StepNumber | None, Parameter(metavar="N")] = None,
    context: Count = LOOKED_BACK_AT,
    dry_run: bool = False,
    vacuum: bool = False,
    common: Common = USUAL,
) -> int:
    """Delete old steps and records.

    What a harness may need again stays, whatever is asked for: the newest snapshot before the steps that are kept and
    everything since, the last 100 steps of a harness that can continue (--context), waiting messages, open reservations; what
    people have answered stays forever. A program may run on the store meanwhile. `orchestrator verify` proves what is left,
    and reports how far it was pruned.

    Examples:
        orchestrator prune --older-than 30d --dry-run
        orchestrator prune eurusd --keep 10000 --vacuum

    Args:
        names: only these harnesses (default: all)
        older_than: delete what is older: 30d, 12h, 4w
        keep: delete all but the last N steps of each harness
        context: keep this many steps of a harness that can continue: its max_context_steps, or more (default: 100)
        dry_run: only report what would be deleted, and what would stay and why
        vacuum: give the space back, if no program runs on the store
    """
    if (older_than is None) == (keep is None):
        given = "neither" if keep is None else "both"
        raise UsageError(f"prune: expected --older-than or --keep, got {given}; see `orchestrator prune --help`")
    place = place_of(common.location)
    server, store = server_of(place), shown_place(place)
    since_us = None if older_than is None else now_us() - int(older_than * 1e6)
    rule = Rule(keep=keep, since_us=since_us, context=context)
    if server is not None:
        done = (
            survey_server(server, place.parent, rule, names)
            if dry_run
            else prune_server(server, place.parent, rule, names, by=user_name())
        )
    else:
        done = survey(store, rule, names) if dry_run else prune_store(store, rule, names, by=user_name())
    print_all(prune_lines(store, done, dry=dry_run, as_json=common.json))
    if server is not None:
        streams.say("the server uses the space again; its own VACUUM FULL gives it back")
    elif not dry_run and (vacuum or done.records):
        streams.say(vacuum_store(Path(store)) if vacuum else space_of(Path(store)))
    return ExitCode.OK


def prune_lines(store: str, pruned: Pruned, *, dry: bool, as_json: bool) -> Iterator[str]:
    """Yield what goes of each harness and what stays, then all of it together."""
    if as_json:
        yield from (json_line({"harness": floor.harness, **_fields(pruned, floor)}) for floor in pruned.floors)
        yield json_line(
            {
                "dry_run": dry,
                **_sums(pruned),
                "files": pruned.files,
                "file_bytes": pruned.file_bytes,
                "base_seq": pruned.base.last_seq,
            }
        )
        return
    goes = "WOULD GO" if dry else "GONE"
    rows = [_cells(pruned, floor) for floor in pruned.floors]
    yield from columns(("HARNESS", f"STEPS {goes}", "RECORDS", "BYTES", "STAYS FROM STEP", "FOR"), rows)
    sums = _sums(pruned)
    would = "would be " if dry else ""
    yield f"{store}: {sums['steps']} steps in {sums['records']} records {would}taken away, {sums['bytes']:,} bytes of them"
    if pruned.files:
        yield f"{pruned.files} files with large values {would}taken away, {pruned.file_bytes:,} bytes"


def space_of(store: Path) -> str:
    """Return what to say of the space that is free within the file."""
    with closing(sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True)) as db:
        (pages,) = db.execute("PRAGMA freelist_count").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    return f"{pages * size:,} bytes are free within {store}, and are used again; --vacuum gives them back"


def vacuum_store(store: Path) -> str:
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
        **{name: counts.get(floor.number, 0) for name, counts in _counts(pruned).items()},
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
    return {name: sum(counts.values()) for name, counts in _counts(pruned).items()}


def _counts(pruned: Pruned) -> dict[str, Mapping[int, int]]:
    return {"steps": pruned.steps, "records": pruned.records, "bytes": pruned.bytes}
