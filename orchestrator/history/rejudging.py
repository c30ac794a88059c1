"""Judging stored steps by today's rules, without running anything: would a step that passed still pass, and vice versa?

    recorded step, state before and after, its other records ──► judge ──► today's verdict
                                                  │                            ╎ differs?
                                                  └──────────────────► recorded verdict

Invariant: only the judge is called, and it can start no program and open no connection.

This is enforced by an audit hook (PEP 578): Python reports both to it beforehand, and the hook prevents them by raising. It
covers what goes through Python; it does not see what a C library does by itself, nor a process that `multiprocessing` spawns
(it sees forks, and a fork server). A hook cannot be removed, so it stays installed, but acts only where a context variable
says so: other tasks and threads are not affected.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from inspect import isawaitable
from operator import eq
from typing import Any, TypeAlias, cast

import trio
from attrs import evolve, field, frozen

from harnesses.data.delta import apply_to_state
from orchestrator.codec import decode, decode_step, encode_private, kept_of
from orchestrator.errors import UsageError
from orchestrator.history.state_at_step import (
    Like,
    Past,
    Source,
    decode_state,
    find_harness,
    oldest_step,
    open_past,
    read_records,
    types_of,
)
from orchestrator.records import Record, StepRecord
from orchestrator.text.terminal_text import one_line

BESIDE = frozenset(
    {"intent", "outcome", "evidence", "task", "guardrail", "approval_requested", "approval_answered", "approval_used"}
)
"""Kinds of records that belong to a step and are passed to a judge with it."""


@frozen
class Look:
    """A step as it is passed to a judge. States are shared between looks and must not be mutated."""

    record: StepRecord
    """The step; input and output are typed if the harness is given."""
    before: Any
    """The state before the step; typed likewise."""
    after: Any
    beside: tuple[Record, ...] = ()
    """Other records of the step, in order: effects, evidence, tasks, guardrail findings, approvals."""
    kept: Mapping[str, Any] = field(factory=dict[str, Any])
    """What the step before kept, by name: `ticks` and `governance`."""


Answer: TypeAlias = object
"""A verdict, compared with `==`; None for no verdict."""


def _nothing(look: Look) -> Answer:
    return None


@frozen
class Judge:
    """A function that judges steps, and how to find the recorded verdict."""

    name: str
    today: Callable[[Look], Answer | Awaitable[Answer]]
    stored: Callable[[Look], Answer] = _nothing
    same: Callable[[Any, Any], bool] = eq
    """Whether two verdicts agree."""
    like: Like | None = None
    """The harness whose types it needs, if the caller gives none."""


@frozen
class Rejudged:
    """The result for one step."""

    harness: str
    step: int
    seq: int
    stored: Any = None
    """The recorded verdict; None if there is none."""
    today: Any = None
    """Today's verdict; None if the judge gives none for such a step."""
    differs: bool = False
    """Whether there are two verdicts, and they disagree."""
    problem: str = ""
    """Error that the judge raised."""


async def rejudge(
    source: Source,
    name: str,
    judge: Judge | Callable[[Look], Answer | Awaitable[Answer]],
    *,
    like: Like | None = None,
    after: int = 0,
    until: int | None = None,
) -> AsyncGenerator[Rejudged]:
    """Yield today's verdict on each recorded step together with the recorded one.

    Args:
        judge: one of `orchestrator.presets.ready_made_judges`, or a function of a `Look`, asynchronous or not.
        like: the harness or its class; states, inputs and outputs then have the declared types.
        after: number of a step; the next one is judged first. Pruned steps are skipped, and so is the oldest remaining one,
            because the state before it is gone.
        until: the last step to judge; default is the last one.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it has no such steps, or the judge tried to run something.
    """
    judge = judge if isinstance(judge, Judge) else Judge(getattr(judge, "__name__", "judge"), judge)
    with open_past(source) as past:
        for look in looks(past, name, like=like or judge.like, after=after, until=until):
            yield await _judge_step(judge, name, look)


async def _judge_step(judge: Judge, name: str, look: Look) -> Rejudged:
    await trio.lowlevel.checkpoint()
    step, seq = look.record.step_number, look.record.seq
    stored: Answer = None
    try:
        stored = judge.stored(look)
        with still(f"judge {judge.name!r}, at step {step} of {name!r},"):
            answer = judge.today(look)
            today = await cast(Awaitable[Answer], answer) if isawaitable(answer) else answer
    except UsageError:
        raise
    except Exception as error:
        return Rejudged(name, step, seq, stored, problem=one_line(f"{type(error).__name__}: {error}", 300))
    differs = stored is not None and today is not None and not judge.same(stored, today)
    return Rejudged(name, step, seq, stored, today, differs)


def looks(past: Past, name: str, *, like: Like | None, after: int, until: int | None) -> Generator[Look]:
    """Yield the steps of a harness as they are passed to a judge, with one state in memory at a time.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it has no such steps.
    """
    last = find_harness(past, name).current_step
    if not 0 <= after <= last or (until is not None and not after <= until <= last):
        raise UsageError(f"harness {name!r} has no steps {after + 1} to {until or last}: expected numbers from 1 to {last}")
    oldest = oldest_step(past, name)
    after = max(after, oldest if oldest > 1 else 0)
    until = last if until is None else until
    walk = _Walk(past, name, after, like)
    beside: dict[int, list[Record]] = {}
    made: Look | None = None
    seq = past.steps(name, after=after - 1, limit=1)[0].seq if after else 0
    for record in (record for record in read_records(past, seq) if record.harness == name):
        if record.kind == "step" and record.step > after:
            if made is not None:
                yield evolve(made, beside=tuple(beside.pop(made.record.step_number, ())))
            if record.step > until:
                return
            made = walk.take(record)
        elif record.kind in BESIDE and record.step > after:
            beside.setdefault(record.step, []).append(record)
    if made is not None:
        yield evolve(made, beside=tuple(beside.pop(made.record.step_number, ())))


class _Walk:
    """Advances from state to state."""

    def __init__(self, past: Past, name: str, after: int, like: Like | None) -> None:
        self._types = None if like is None else types_of(like)
        self._name, self._versions = name, past.state_versions(name)
        text = past.state_at(name, after)
        self._data = decode(text)
        self._state = self._decode_typed(text, after)
        rows = past.step_rows(name, after=after - 1, limit=1) if after else []
        self._kept: Mapping[str, Any] = kept_of(rows[0].body) if rows else {}

    def take(self, record: Record) -> Look:
        """Return the next step."""
        step = decode_step(record.harness, record.attempt, record.seq, record.step, record.time_us, record.body)
        delta = decode(record.body)["delta"]
        before, kept = self._state, self._kept
        if delta:
            self._data = apply_to_state(self._data, delta)
            self._state = self._decode_typed(encode_private(self._data), record.step)
        self._kept = kept_of(record.body)
        return Look(step if self._types is None else self._types.record(step), before, self._state, kept=kept)

    def _decode_typed(self, text: str, step: int) -> Any:
        # Decoded anew: the judge's copy is not the one that the next delta is applied to.
        return decode(text) if self._types is None else decode_state(self._types, text, self._versions, self._name, step)


_RUNS = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"}
    | {"socket.connect", "socket.sendto", "subprocess.Popen"}
)
_wanted: ContextVar[list[str] | None] = ContextVar("wanted", default=None)
"""What the judge tried to run; None where running is allowed."""


@contextmanager
def still(who: str) -> Generator[None]:
    """Forbid this task to run anything inside the block.

    Raises:
        UsageError: something was tried, even if the refusal was caught.
    """
    _watch()
    wanted: list[str] = []
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)
        if wanted:
            raise UsageError(_refusal(who, wanted[0])) from None


def _refusal(who: str, what: str) -> str:
    return f"{who} tried to run something: {what}; expected a judge that only reads, since re-judging runs nothing"


@cache
def _watch() -> None:
    sys.addaudithook(_hook)


def _hook(
    event: str, args: tuple[Any, ...], *, runs: Collection[str] = _RUNS, wanted: ContextVar[list[str] | None] = _wanted
) -> None:
    """Refuse what runs something. It has no names of the module: they are gone before the last events at the end of Python."""
    if event in runs:
        seen = wanted.get()
        if seen is not None:
            seen.append(f"{event} {args[:2]!r:.200}")
            raise UsageError(f"nothing is run when steps are re-judged: {event} was refused")
