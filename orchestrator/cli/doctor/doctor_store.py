"""The store as a file: is it there, whose is it, is it whole, can it grow, who can read it. No check writes to it.

`doctor --repair` brings it to this version's schema, and mends what a known defect has left in it.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from orchestrator.cli.doctor.doctor_model import Check, fail, few, warn, well
from orchestrator.cli.read.verify_verb import verified
from orchestrator.errors import OrchestratorError, StoreBusy, StoreUnusable
from orchestrator.operating.store_writing import user_name
from orchestrator.store.file.schema import VERSION
from orchestrator.store.file.value_files import files_folder, named_files, unnamed
from orchestrator.store.integrity.proof_findings import REPAIR, LostNote
from orchestrator.store.rules.signing_key import secret_path
from orchestrator.store.sqlite.sqlite_file import open_reader
from orchestrator.store.sqlite.store_repair import repair, upgrade
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import json_line

_LOCK_S = 1.0
"""What waiting for a lock may take."""
LOOK_S = 10.0
"""What looking through all pages of a store may take."""
_ROOM, _LITTLE_ROOM = 10_000_000, 200_000_000
_MUCH_TO_PROVE = 500_000_000
"""Bytes of a store that takes longer to prove untouched than somebody waits for a look at it."""
_LONG_LOG = 256_000_000
"""Bytes of a write-ahead log: SQLite begins anew at 4 MB, unless somebody reads all the time."""


def opens(store: Path, *, named: bool) -> Iterator[Check]:
    """Look whether it opens, and of what version it is.

    Args:
        named: whether somebody has said that it is there.
    """
    if not store.exists() and not store.is_symlink():
        if named:
            yield fail("store", f"{store} is not there", "check --store and $ORCHESTRATOR_STORE, or run something on it first")
        else:
            yield warn("store", f"{store} is not there yet", "run something: it is made then; or say where it is with --store")
        return
    if store.is_file() and store.stat().st_size == 0:
        raise StoreUnusable(f"{store} is an empty file; restore it from a copy, or remove it if nothing was ever run on it")
    _wait_for_lock(store)
    with closing(open_reader(store)) as db:
        mode = str(db.execute("PRAGMA journal_mode").fetchone()[0])
    if mode != "wal":
        yield fail(
            "store", f"{store} has journal mode {mode!r}: expected 'wal'", "put it on a local disk, and run something on it"
        )
        return
    yield well("store", f"{store} opens, schema version {VERSION}, {_size(store.stat().st_size)}")
    log = Path(f"{store}-wal")
    if log.exists() and log.stat().st_size > _LONG_LOG:
        yield warn(
            "store",
            f"the write-ahead log has grown to {_size(log.stat().st_size)}",
            "end programs that read from it all the time; then run something on it",
        )


def _wait_for_lock(store: Path) -> None:
    """Wait for whoever keeps even readers out, but not for long."""
    if store.is_file():
        with closing(sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True, timeout=_LOCK_S)) as db:
            try:
                db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise StoreBusy(
                        f"{store} is locked: another process keeps even readers out; end it, or try again"
                    ) from error
            except sqlite3.DatabaseError:
                pass  # what is wrong with it is told when it is opened


def whole(store: Path) -> Iterator[Check]:
    """Look through all pages, for a while."""
    with closing(open_reader(store)) as db:
        until = time.monotonic() + LOOK_S
        db.set_progress_handler(lambda: time.monotonic() > until, 10_000)
        try:
            found = [str(row[0]) for row in db.execute("PRAGMA quick_check(10)")]
        except sqlite3.OperationalError as error:
            if "interrupt" not in str(error):
                raise
            yield warn(
                "integrity",
                f"not all of it could be checked within {LOOK_S:.0f} s",
                f"sqlite3 {_quote_all([store])} 'pragma quick_check'",
            )
            return
    if found == ["ok"]:
        yield well("integrity", "its pages are in order")
        return
    fix = "restore it from a copy, or start a new store"
    yield from few([fail("integrity", f"it is damaged: {problem}", fix) for problem in found])


def seals(store: Path) -> Iterator[Check]:
    """Look whether anybody has changed what is recorded."""
    size = store.stat().st_size
    if size > _MUCH_TO_PROVE:
        fix = f"orchestrator verify --store {_quote_all([store])}"
        yield warn("seals", f"{_size(size)} are too much to be looked through here", fix)
        return
    proof = verified(str(store), None, deep=False)
    if proof.lost_note is not None:
        yield fail("seals", proof.lost_note.what, f"{REPAIR} --store {_quote_all([store])}")
        return
    fix = "find out who has changed it, and restore it from a copy"
    found = [fail("seals", one_line(f"{finding.what}: {finding.text}", 500), fix) for finding in proof.findings]
    counts = f"{proof.records} records under {proof.seals} seals, {proof.unsealed} not sealed yet"
    yield from few(found, well("seals", f"nothing has changed: {counts}"))


def room(store: Path) -> Iterator[Check]:
    """Look whether more can be written."""
    folder = store.resolve().parent
    if not folder.is_dir():
        yield fail("room", f"{folder} is no folder", f"mkdir -p {shlex.quote(str(folder))}")
        return
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    effective = os.access in os.supports_effective_ids
    if space.f_flag & os.ST_RDONLY:
        yield fail("room", f"the file system of {folder} is read-only", "put the store elsewhere, or mount it for writing")
    elif not os.access(folder, os.W_OK | os.X_OK, effective_ids=effective):
        yield fail(
            "room",
            f"{folder} cannot be written to: SQLite and the locks make files there",
            f"chmod u+wx {shlex.quote(str(folder))}",
        )
    elif store.is_file() and not os.access(store, os.W_OK, effective_ids=effective):
        yield fail("room", f"{store} cannot be written to", f"chmod u+w {shlex.quote(str(store))}")
    elif free < _ROOM:
        yield fail("room", f"only {_size(free)} are free in {folder}", "free some space: without it no step can be recorded")
    elif free < _LITTLE_ROOM:
        yield warn("room", f"only {_size(free)} are free in {folder}", "free some space soon")
    else:
        yield well("room", f"{_size(free)} are free in {folder}")


def files(store: Path) -> Iterator[Check]:
    """Look for files beside the store that no record names."""
    folder = files_folder(store.resolve())
    if not folder.is_dir():
        return
    with closing(open_reader(store)) as db:
        named = {file.sha256 for _, file in named_files(db)}
    extra = unnamed(folder, named)
    size = sum(path.stat().st_size for path in folder.iterdir())
    if extra:
        text = f"{len(extra)} of the files in {folder} are named by no record, {_size(sum(size for _, size in extra))}"
        yield warn("files", text, "start the program, or prune: what a killed program has left is removed then")
    else:
        yield well("files", f"{len(named)} large values, {_size(size)}, are in files in {folder}")


def permissions(store: Path) -> Iterator[Check]:
    """Look who else can read it, or change it."""
    beside = [Path(f"{store}{end}") for end in ("", "-wal", "-head", "-latch", "-files", "-summary")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in beside if path.exists()}
    changed = [path for path, mode in modes.items() if mode & 0o002]
    read = [path for path, mode in modes.items() if mode & 0o004 and not path.is_dir()]
    wrong = len(changed) + len(read)
    if changed:
        yield fail("permissions", f"everybody can change {_names(changed)}", f"chmod o-w {_quote_all(changed)}")
    if read:
        yield warn(
            "permissions", f"everybody can read {_names(read)}, and what agents wrote in it", f"chmod o-rwx {_quote_all(read)}"
        )
    key = secret_path(store)
    if key.exists():
        mode = stat.S_IMODE(key.stat().st_mode)
        if mode & 0o077:
            wrong += 1
            yield fail(
                "permissions",
                f"the key {key} can be read by others ({mode:04o}): they can approve in your name",
                f"chmod 600 {shlex.quote(str(key))}; if others may have read it, deny what waits, then remove it",
            )
        elif key.stat().st_uid != os.geteuid():
            wrong += 1
            yield warn("permissions", f"the key {key} belongs to another user", "answer as the user who runs the harnesses")
    folder = store.resolve().parent
    if folder.is_dir() and stat.S_IMODE(folder.stat().st_mode) & 0o1002 == 0o002:
        wrong += 1
        yield fail("permissions", f"everybody can replace files in {folder}", f"chmod o-w {shlex.quote(str(folder))}")
    if not wrong and store.exists():
        yield well("permissions", "nobody else can read or change it")


def _names(paths: Sequence[Path]) -> str:
    return " and ".join(map(str, paths))


def _quote_all(paths: Sequence[Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in paths)


def _size(count: int) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:,} {unit}"
        count //= 1000
    raise AssertionError


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
    fields: dict[str, object] = {"store": str(store), "schema_before": before, "repaired": lost is not None}
    if lost is not None:
        residue = lost.residue
        fields |= {"found": lost.what, "unproven": lost.unproven, "residue": residue.position}
        fields |= {"first_seq": residue.first_seq, "last_seq": residue.last_seq}
    return json_line(fields)
