"""Stored steps before a judge of today, nothing being run: would what passed then pass now, and the other way round?

    step on record, state before and after, what was recorded beside it ──► judge ──► verdict of today
                                                  │                                        ╎ differs?
                                                  └────────────────────────► verdict on record

The law: nobody but the judge is asked, and whatever it is, it starts no program and opens no connection.

How that is known: Python itself reports both, before it does them, to audit hooks (PEP 578), and a hook that raises prevents
it. It sees what goes through Python; what a library in C does by itself is not seen, nor is a process that `multiprocessing`
spawns (forks, and a fork server, are). The hook stays for good, since there is no way to take one away, and does nothing but
where the context says so: other tasks and threads go on as ever.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
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
"""Kinds of records that belong to a step, and that a judge is shown with it."""


@frozen
class Look:
    """A step as a judge is shown it. States are shared between looks: they are to be looked at, and not changed."""

    record: StepRecord
    """Input and output typed, where the harness is given."""
    before: Any
    """The state before it; typed as well."""
    after: Any
    beside: tuple[Record, ...] = ()
    """What was recorded for it: effects, evidence, tasks, findings of guardrails, approvals; in order."""
    kept: Mapping[str, Any] = field(factory=dict[str, Any])
    """What was kept with the step before, by its name: `ticks` and `governance`."""


Answer: TypeAlias = object
"""A verdict, compared by `==`; None for none."""


def _nothing(look: Look) -> Answer:
    return None


@frozen
class Judge:
    """Who judges steps, and what of the record is the verdict of then."""

    name: str
    today: Callable[[Look], Answer | Awaitable[Answer]]
    stored: Callable[[Look], Answer] = _nothing
    same: Callable[[Any, Any], bool] = eq
    """Whether two verdicts say the same."""
    like: Like | None = None
    """What types it needs, where the caller does not say."""


@frozen
class Rejudged:
    """What came of one step."""

    harness: str
    step: int
    seq: int
    stored: Any = None
    """The verdict on record; None if there is none."""
    today: Any = None
    """The verdict of today; None if the judge has none on such a step."""
    differs: bool = False
    """Whether there are two, and they do not say the same."""
    problem: str = ""
    """What the judge raised instead of judging."""


async def rejudge(
    source: Source,
    name: str,
    judge: Judge | Callable[[Look], Answer | Awaitable[Answer]],
    *,
    like: Like | None = None,
    after: int = 0,
    until: int | None = None,
) -> AsyncGenerator[Rejudged]:
    """Yield what a judge says of each recorded step today, beside what is on record.

    Args:
        judge: one of `orchestrator.presets.ready_made_judges`, or a function of a `Look`, asynchronous or not.
        like: the harness or its class: then states, inputs and outputs are of the declared types.
        after: the number of a step; the next one is judged first. Steps that were pruned, and the oldest that was kept, whose
            state before is gone with them, are passed over.
        until: the last one to judge; by default, the last there is.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it has no such steps, or the judge wanted to run something.
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
    """Yield the steps of a harness as a judge is shown them, one state in memory at a time.

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
    """Goes from state to state."""

    def __init__(self, past: Past, name: str, after: int, like: Like | None) -> None:
        self._types = None if like is None else types_of(like)
        self._name, self._versions = name, past.state_versions(name)
        text = past.state_at(name, after)
        self._data = decode(text)
        self._state = self._decode_typed(text, after)
        rows = past.step_rows(name, after=after - 1, limit=1) if after else []
        self._kept: Mapping[str, Any] = kept_of(rows[0].body) if rows else {}

    def take(self, record: Record) -> Look:
        """Return the step that comes next."""
        step = decode_step(record.harness, record.attempt, record.seq, record.step, record.time_us, record.body)
        delta = decode(record.body)["delta"]
        before, kept = self._state, self._kept
        if delta:
            self._data = apply_to_state(self._data, delta)
            self._state = self._decode_typed(encode_private(self._data), record.step)
        self._kept = kept_of(record.body)
        return Look(step if self._types is None else self._types.record(step), before, self._state, kept=kept)

    def _decode_typed(self, text: str, step: int) -> Any:
        # Read anew: what a judge is shown is not what the next delta is applied to.
        return decode(text) if self._types is None else decode_state(self._types, text, self._versions, self._name, step)


_RUNS = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"}
    | {"socket.connect", "socket.sendto", "subprocess.Popen"}
)
_wanted: ContextVar[list[str] | None] = ContextVar("wanted", default=None)
"""What those who are asked have wanted to run; None where running is nobody's business."""


@contextmanager
def still(who: str) -> Generator[None]:
    """Refuse to run anything, for this task, until it is left.

    Raises:
        UsageError: somebody wanted to, also if they have caught what they got for it.
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
    return (
        f"{who} wanted to run something: {what}; expected a judge that only looks, for nothing is run when steps are re-judged"
    )


@cache
def _watch() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event in _RUNS:
        wanted = _wanted.get()
        if wanted is not None:
            wanted.append(f"{event} {args[:2]!r:.200}")
            raise UsageError(f"nothing is run when steps are re-judged: {event} was refused")
