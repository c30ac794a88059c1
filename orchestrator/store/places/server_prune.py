"""Pruning of a store on PostgreSQL. A copy is examined as a file is; what goes is then deleted on the server.

Invariants: nothing is removed that does not verify in the copy, or that a harness may need again. Each portion is one
transaction: it takes the lock of the seals, checks that they are still those of the copy, deletes, and seals what is left.
Commits of programs go on meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection
from tempfile import TemporaryDirectory

from harnesses.timing.clock import now_us
from orchestrator.errors import StoreBusy
from orchestrator.store.file.schema import INDEX_NEW
from orchestrator.store.file.server_copy import Server
from orchestrator.store.integrity.residue import NEWEST_BASE, Base, base_in, note_gone
from orchestrator.store.integrity.seals import Note
from orchestrator.store.places.copy_refresh import CopyRefresh
from orchestrator.store.postgres.machine_head import MachineHead
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import LimitedDatabase, array, limited
from orchestrator.store.postgres.postgres_orders import commit_order
from orchestrator.store.postgres.postgres_seals import append_seal, changed_rows, seal_new, sealing
from orchestrator.store.postgres.postgres_setup import check_version
from orchestrator.store.pruning.prune_plan import Plan, Rule, read_plan
from orchestrator.store.pruning.prune_store import Pruned, explain_errors, statement
from orchestrator.store.pruning.prune_survey import Latest, Portion, portions
from orchestrator.store.sqlite.sqlite_file import open_writer
from orchestrator.store.store_protocol import Remark

_WAIT_S = 20.0
_BUSY_S = 10.0
_BREATH_S = 0.002
"""Minimum seconds between two portions; at least as long as the last one took."""
_THERE = "SELECT hash FROM seals WHERE position >= %s AND position <= %s ORDER BY position"
_EMPTY = "DELETE FROM seals WHERE position = %s AND length(marks) = 0"
_INSERT = "INSERT INTO seals (position, first_seq, last_seq, notes, hash, marks) VALUES (%s, %s, %s, %s, %s, %s)"
_NOTES = "SELECT position, notes FROM seals WHERE position > %s ORDER BY position"
_RUNS = """
DELETE FROM records r USING unnest(%s::bigint[], %s::bigint[]) AS run (first, last)
WHERE r.seq >= run.first AND r.seq <= run.last
"""


def survey_server(server: Server, folder: Path, rule: Rule, names: Collection[str] = ()) -> Pruned:
    """Return what pruning would remove, without writing anything.

    Args:
        folder: this machine's folder for the store, with room for a copy.

    Raises:
        StoreError: the server does not answer, or its store was changed by something else.
        UnknownHarness: there is no such harness.
    """
    with TemporaryDirectory(dir=folder, prefix="prune-") as made, closing(_copy(server, made, with_rest=True)) as copy:
        with explain_errors(server.location):
            return _look(copy, read_plan(copy, rule, names))


def prune_server(server: Server, folder: Path, rule: Rule, names: Collection[str] = (), *, by: str) -> Pruned:
    """Remove old records; programs may be running on the store. Run again after a crash, it continues.

    Args:
        folder: this machine's folder for the store, with room for a copy.
        by: who prunes; it is recorded.

    Raises:
        StoreError: the server does not answer, its store was changed by something else, or is being pruned by another program.
        UnknownHarness: there is no such harness.
    """
    address = Address(server.url, server.schema, _WAIT_S)
    with limited(address, _WAIT_S) as db:
        check_version(db, address)
        _seal(db)
        _note_seen(db, folder, server)
    with TemporaryDirectory(dir=folder, prefix="prune-") as made, closing(_copy(server, made, with_rest=False)) as copy:
        with explain_errors(server.location):
            plan = read_plan(copy, rule, names)
            would = _look(copy, plan)
            if not would.records:
                return would
            commit_order(address, Remark("", "pruned", statement(rule, plan, by), now_us()), wait_s=_WAIT_S)
            with limited(address, _WAIT_S) as db:
                # Under a seal of its own, which is never pruned: the next seal follows it.
                _seal(db)
                _note_seen(db, folder, server)
                return _ServerPruner(db, copy, plan, server, by).run()


def _seal(db: LimitedDatabase) -> None:
    while seal_new(db) is not None:
        pass


def _note_seen(db: LimitedDatabase, folder: Path, server: Server) -> None:
    """Note the newest seal on this machine, which is not pruned: so it can tell this prune from another's."""
    with closing(MachineHead(db, folder, server.location)) as head:
        head.follow(db)


def _copy(server: Server, folder: str, *, with_rest: bool) -> Connection:
    """Return a connection to a copy of everything, within a transaction; see `CopyRefresh.copy_whole`."""
    path = Path(folder, "prune.db")
    CopyRefresh(path, server).copy_whole(with_rest=with_rest)
    copy = open_writer(path, _BUSY_S)
    for index in INDEX_NEW:
        copy.execute(index)
    copy.execute("UPDATE meta SET indexed_seq = (SELECT coalesce(max(seq), 0) FROM records)")
    copy.execute("BEGIN")
    return copy


def _look(copy: Connection, plan: Plan) -> Pruned:
    """Return what would be removed, with every record checked against its seal."""
    base, latest = base_in(copy.execute(NEWEST_BASE).fetchone()), Latest()
    would = Pruned(plan.floors, base)
    if plan.until:
        latest.read(copy)
        for portion in portions(copy, plan, base, latest):
            would.add(portion)
    return would


class _ServerPruner:
    """Carries out a plan.

    Args:
        copy: what the plan was made from; only read.
    """

    def __init__(self, db: LimitedDatabase, copy: Connection, plan: Plan, server: Server, by: str) -> None:
        self._db = db
        self._copy = copy
        self._plan = plan
        self._location = server.location
        self._by = by
        self._latest = Latest()

    def run(self) -> Pruned:
        base, examined = base_in(self._db.row(NEWEST_BASE)), Latest()
        examined.read(self._copy)
        pruned = Pruned(self._plan.floors, base)
        for portion in portions(self._copy, self._plan, base, examined):
            if portion.changes(portion.base):
                began = time.monotonic()
                pruned.base = self._take(portion)
                pruned.add(portion)
                time.sleep(max(_BREATH_S, time.monotonic() - began))
        return pruned

    def _take(self, portion: Portion) -> Base:
        """Delete the removed records of a portion, and replace its seals by a residue over the rest; return the new base."""
        db, old = self._db, portion.base
        with sealing(db):
            there = [hash for (hash,) in db.rows(_THERE, (portion.positions[0], portion.position))]
            (newest,) = db.row("SELECT max(position) FROM seals")
            is_as_seen = there == portion.hashes and base_in(db.row(NEWEST_BASE)).position == old.position
            if not is_as_seen or newest == portion.position:
                raise StoreBusy(f"{self._location} is being pruned by another process: wait until that ends, and try again")
            self._latest.add(db.rows(_NOTES, (self._latest.position,)))
            firsts, lasts = (array([run[at] for run in portion.runs]) for at in (0, 1))
            db.execute(_RUNS, (firsts, lasts))
            db.execute("DELETE FROM mailbox WHERE seq = ANY(%s::bigint[])", (array(portion.messages),))
            db.execute("DELETE FROM seals WHERE position >= %s AND position <= %s", (portion.positions[0], portion.position))
            base = portion.base_after(self._by, now_us())
            taken = [*portion.residues]
            if old.position < base.position and db.execute(_EMPTY, (old.position,)).rowcount:
                taken.append(old.position)
            notes: list[Note] = [base.note(), *note_gone(taken)]
            if portion.residue.marks or base.position == portion.position:
                db.execute(_INSERT, portion.residue.row())
                notes.append(portion.residue.note())
            left = {("mailbox", (seq,)) for seq in portion.messages} | {("seals", (position,)) for position in taken}
            notes += [note for note, place in self._latest.noted_in(portion.whole) if place not in left]
            notes += changed_rows(db, db.rows("DELETE FROM unsealed RETURNING of_table, key"))
            append_seal(db, notes)
        return base
