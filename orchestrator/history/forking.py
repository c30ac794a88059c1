"""Forking: a new harness that starts from any recorded step of another one.

Copied are the steps: their numbers, times, inputs, outputs and states, and the progress of tickers and governance. Not
copied are effects, messages, approvals, output, attachments and children: they belong to the origin, and nothing is done
twice.
"""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, cast

from attrs import evolve, frozen

from harnesses.timing.clock import now_us
from orchestrator.child_spec import check_name
from orchestrator.errors import UsageError
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.sqlite.sqlite_store import SqliteStore
from orchestrator.store.store_capabilities import path_of
from orchestrator.store.store_protocol import Fork, Past, Store


@frozen
class Forked:
    """The result of a fork."""

    name: str
    origin: str
    step: int
    """The last step that was copied; the fork continues with the next one."""
    seq: int
    """`seq` of the record of the fork."""
    store: str
    """Location of the store."""


def fork(
    source: Store | SqliteReader | str | Path, name: str, step: int, *, to: str, into: Store | str | Path | None = None
) -> Forked:
    """Create a harness `to` with the steps of `name` up to `step`; start it under its name to continue from there.

    It is one commit, done as a whole or not at all. The origin is only read, and may be running in this process or another.
    Copying a million steps takes some seconds, in which nobody else can write to the same store; while a program is running on
    it, more than 100,000 steps are refused and need another store. The call blocks until the commit is on disk: beside an
    `Orchestrator` of this process, call it in a thread.

    Args:
        source: the store that holds `name`, or its path.
        step: from 0, which is the initial state.
        into: the store to create it in, or its path; default is the origin's store.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it has no such step, it was pruned, the new name is taken or invalid, or it would take too long.
    """
    check_name(to)
    order = Fork(to, name, step, now_us())
    if into is None or _is_same(source, into):
        return _fork(_writable(source), order)
    with closing(SqliteReader(source)) if isinstance(source, str | Path) else nullcontext(source) as origin:
        return _fork(into, evolve(order, past=_past(origin, name, step)))


def _writable(source: Store | SqliteReader | str | Path) -> Store | str | Path:
    """Return a store unchanged, or the path of the store of a reader."""
    if isinstance(source, str | Path) or hasattr(source, "commit"):
        return cast(Store | str | Path, source)
    if (path := path_of(source)) is None:
        raise UsageError(f"fork: {source!r:.100} is read-only: expected a store, or a path; pass `into`, where to create it")
    return path


def _fork(into: Store | str | Path, order: Fork) -> Forked:
    if isinstance(into, str | Path):
        if order.past is None:
            with closing(SqliteReader(into)) as reader:
                reader.last_seq()  # raises if it does not exist, or is not a store
        with closing(SqliteStore(into)) as store:
            return _fork(store, order)
    result: Any = into.commit((), [order]).results[0]
    if isinstance(result, Exception):
        raise result
    return Forked(order.name, order.origin, order.step, result, into.location)


def _past(origin: Store | SqliteReader, name: str, step: int) -> Past:
    """Return what a fork copies from another store."""
    initial = origin.state_at(name, 0)
    origin.state_at(name, step)
    harness_class = next(record.harness_class for record in origin.harnesses() if record.name == name)
    last = origin.steps(name, after=step - 1, limit=1) if step else []
    oldest = origin.steps(name, limit=1)
    if step and oldest[0].step_number > 1:
        raise UsageError(
            f"harness {name!r} cannot be forked into another store: its steps before {oldest[0].step_number} were pruned; "
            "fork it within its own"
        )
    seq = last[0].seq if last else 0
    run = origin.records(after=seq - 1, limit=1)[0].run if seq else ""

    def rows(after: int, limit: int) -> Any:
        return origin.step_rows(name, after=after, limit=limit)

    attempt = last[0].attempt if last else 0
    versions = origin.state_versions(name)
    return Past(str(origin.location), harness_class, initial, attempt, seq, run, rows, versions)


def _is_same(source: object, into: object) -> bool:
    """Return whether two stores are the same."""
    if source is into:
        return True
    paths: list[object] = [getattr(one, "path", one) for one in (source, into)]
    files = [Path(path).resolve() for path in paths if isinstance(path, str | Path)]
    return len(files) == 2 and files[0] == files[1]
