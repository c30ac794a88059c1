"""Forking: a new harness that starts from any recorded step of another one.

Copied are the steps: their numbers, times, inputs, outputs and states, and the progress of tickers and governance; and the
transcripts of conversations, so that their sessions go on. Not copied are effects, messages, approvals, output, other
attachments and children: they belong to the origin, and nothing is done twice.

With `rounds`, the fork begins in the middle of the next step: its effects up to so many model calls are copied, so the turn
goes on after them with what was said and done until then. With `model`, its model agents ask another model from there on.
"""

from __future__ import annotations

import re
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, cast

from attrs import evolve, frozen

from harnesses.agents.model.providers.model_names import split_name
from harnesses.errors import HarnessMisuse
from harnesses.timing.clock import now_us
from orchestrator.child_spec import check_name
from orchestrator.codec import decode
from orchestrator.errors import UsageError
from orchestrator.records import Record
from orchestrator.store.file.server_copy import server_of
from orchestrator.store.places.store_location import commit_at, local_path
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.sqlite.sqlite_store import SqliteStore
from orchestrator.store.store_capabilities import Transcribed, full_body, path_of
from orchestrator.store.store_protocol import EffectRow, Fork, Past, Store


@frozen
class Forked:
    """The result of a fork."""

    name: str
    """Name of the new harness."""
    origin: str
    """Name of the harness that was copied."""
    step: int
    """The last step that was copied; the fork continues with the next one."""
    seq: int
    """`seq` of the record of the fork."""
    store: str
    """Location of the store."""


def fork(
    source: Store | SqliteReader | str | Path,
    name: str,
    step: int,
    *,
    to: str,
    into: Store | str | Path | None = None,
    rounds: int = 0,
    model: str = "",
) -> Forked:
    """Create a harness `to` with the steps of `name` up to `step`; start it under its name to continue from there.

    It is one commit, done as a whole or not at all. The origin is only read, and may be running in this process or another.
    Copying a million steps takes some seconds, in which nobody else can write to the same store; while a program is running on
    it, more than 100,000 steps are refused and need another store. The call blocks until the commit is on disk: beside an
    `Orchestrator` of this process, call it in a thread.

    Args:
        source: the store that holds `name`, or its path or address.
        step: from 0, which is the initial state.
        into: the store to create it in, or its path; default is the origin's store.
        rounds: how many model calls of the next step to copy, with their tool calls and all effects before them.
        model: the model that its model agents ask instead of their own: `provider:model`, or a name at the same provider; by
            default that of the origin, if it is such a fork itself.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it has no such step, it was pruned, the new name is taken or invalid, it would take too long, the next
            step has not so many model calls, or no such provider is known.
    """
    check_name(to)
    if ":" in model:
        try:
            split_name(model)
        except HarnessMisuse as error:
            raise UsageError(f"fork: {error}") from error
    order = Fork(to, name, step, now_us())
    source = local_path(source) if isinstance(source, str | Path) else source
    into = local_path(into) if isinstance(into, str | Path) else into
    is_same = into is None or _is_same(source, into)
    with closing(SqliteReader(source)) if isinstance(source, str | Path) else nullcontext(source) as origin:
        order = evolve(order, rounds=rounds, **_beside(origin, order, rounds, model, is_same=is_same))
        if not is_same:
            assert into is not None
            return _fork(into, evolve(order, past=_past(origin, name, step)))
    return _fork(_writable(source), order)


_PAGE = 100
_WAIT_S = 60.0
"""Seconds that the commit of a fork may take on a server."""
_MOST_TRANSCRIPTS = 1_000
"""The newest transcripts of sessions that are copied."""
_ROUND = re.compile(r"(?:.*/)?round/\d+")


def _beside(origin: Store | SqliteReader, order: Fork, rounds: int, model: str, *, is_same: bool) -> dict[str, Any]:
    """Return what is copied beside the steps, and the model.

    Args:
        is_same: whether the fork is in the same store, whose files its records may name.
    """
    if not isinstance(origin, Transcribed):
        if rounds or model:
            raise UsageError(
                f"fork: {origin.location} keeps no transcripts: expected a store that does, for rounds and a model"
            )
        return {}
    records = [*_sessions(origin, order), *(_rounds(origin, order, rounds) if rounds else ())]
    rows = [
        EffectRow(
            0, 0, one.attempt, one.step, one.time_us, one.body if is_same else full_body(origin, one.kind, one.body), one.kind
        )
        for one in records
    ]
    return {"beside": rows, "model": model or origin.model_of(order.origin)}


def _sessions(origin: Transcribed, order: Fork) -> list[Record]:
    """Return the transcripts of sessions up to the fork's step, oldest first."""
    found: list[Record] = []
    skipped = 0
    while len(found) < _MOST_TRANSCRIPTS and (page := origin.transcripts(order.origin, skipped=skipped, limit=_PAGE)):
        skipped += len(page)
        found += (one for one in page if one.step <= order.step and decode(one.body).get("session"))
    return found[:_MOST_TRANSCRIPTS][::-1]


def _rounds(origin: Transcribed, order: Fork, rounds: int) -> list[Record]:
    """Return the effects of the next step up to its model call number `rounds + 1`, without those that had no outcome then.

    Raises:
        UsageError: the step has fewer model calls.
    """
    found: list[Record] = []
    calls: list[str] = []
    ended: set[str] = set()
    for record in origin.effect_records(order.origin, order.step + 1):
        key: str = decode(record.body)["key"]
        if record.kind == "intent" and _ROUND.fullmatch(key) and key not in calls:
            calls.append(key)
        if len(calls) > rounds:
            break
        found.append(record)
        if record.kind == "outcome":
            ended.add(key)
    if len(calls) < rounds:
        count = f"{len(calls)} model call{'s' * (len(calls) != 1)}"
        raise UsageError(
            f"harness {order.origin!r}, step {order.step + 1} has {count}: expected at least {rounds}; "
            f"see `orchestrator transcript {order.origin} {order.step + 1}`"
        )
    return [one for one in found if decode(one.body)["key"] in ended]


def _writable(source: Store | SqliteReader | str | Path) -> Store | str | Path:
    """Return a store unchanged, or the path of the store of a reader."""
    if isinstance(source, str | Path) or hasattr(source, "commit"):
        return cast(Store | str | Path, source)
    if (path := path_of(source)) is None:
        raise UsageError(f"fork: {source!r:.100} is read-only: expected a store, or a path; pass `into`, where to create it")
    return path


def _fork(into: Store | str | Path, order: Fork) -> Forked:
    if isinstance(into, str | Path) and (server := server_of(into)) is not None:
        seq = commit_at(server, Path(into), order, wait_s=_WAIT_S)
        return Forked(order.name, order.origin, order.step, seq, server.location)
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
