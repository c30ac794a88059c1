"""The user's handle on one harness: orders, messages, queries, and its steps."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, cast

import msgspec
import trio
from attrs import define, field

from harnesses.base import BaseHarness
from harnesses.data.values import detach
from harnesses.errors import one_of
from harnesses.messages.requests import ASK_TIMEOUT_S, queries_of
from harnesses.timing.clock import jumps
from orchestrator.errors import UsageError
from orchestrator.lifecycle import Status
from orchestrator.outcome import Outcome
from orchestrator.recording.attempt import unwind_if_stopping
from orchestrator.recording.commit_queue import Receipt
from orchestrator.records import StepRecord
from orchestrator.runtime.activity import Live
from orchestrator.runtime.actor import RunContext
from orchestrator.runtime.child import Child
from orchestrator.store.store_protocol import Store

_PAGE = 256
"""Committed steps read at a time."""


class Order:
    """An order that has been given. Await it for when it is recorded, or carried out; nobody needs to."""

    def __init__(self, wait: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._wait = wait

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._wait().__await__()


class Handle:
    """One harness, as its operator sees it. Orders take effect at once; awaiting them waits for the record of it."""

    __slots__ = ("_child", "_context")

    def __init__(self, child: Child, context: RunContext) -> None:
        self._child = child
        self._context = context

    def __repr__(self) -> str:
        return f"<Handle {self.name!r} {self.status} at step {self.current_step}>"

    @property
    def name(self) -> str:
        """The durable name."""
        return self._child.name

    @property
    def status(self) -> Status:
        """Where the harness is in its life."""
        return self._child.record.status

    @property
    def current_step(self) -> int:
        """The number of the last recorded step."""
        return self._child.record.step

    @property
    def live(self) -> Live | None:
        """What it is at now, and for how long; None while no attempt of it is under way."""
        return self._child.doing

    @property
    def attempt(self) -> int:
        """The number of the attempt under way, or of the last one; from 1."""
        return self._child.record.attempt

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it has not."""
        return self._child.outcome

    async def wait(self) -> Outcome:
        """Return how the harness ended, when it has."""
        return await self._child.wait_done()

    def pause(self) -> Order:
        """Hold the harness at its next step boundary, over restarts of it and of the program."""
        return recorded(self._child.orders.pause())

    def resume(self) -> Order:
        """Let a held harness go on."""
        return recorded(self._child.orders.resume())

    def stop(self, grace: float | None = None) -> Order:
        """End the harness at its next step boundary or wait of its own; it can be resumed by starting it again.

        Args:
            grace: seconds until it is cancelled; default is the orchestrator's.

        Awaiting it waits for the end and gives the outcome.
        """
        self._child.orders.stop(grace)
        return Order(self.wait)

    def send(self, message: object) -> Order:
        """Put a message, any value that JSON can carry, in the harness's mailbox. Awaiting it waits for the disk.

        Raises:
            HarnessMisuse: the harness does not accept messages of that type.
            Unstorable: JSON cannot carry it.
        """
        return recorded(self._context.post.post(self.name, "", message))

    def check(self, message: object) -> None:
        """Return if `send` would take a message; it is not sent.

        Raises:
            HarnessMisuse: the harness does not accept messages of that type; the error names those that it accepts.
            Unstorable: JSON cannot carry it.
        """
        self._context.post.encoded(self.name, message)

    async def ask(self, message: object, *, timeout_s: float = ASK_TIMEOUT_S) -> Any:
        """Return what the harness replies to a message, as plain data; the reply is on disk then.

        Raises:
            AskTimeout: there is none in time; one that comes later is on record, and dropped.
            HarnessMisuse: the harness does not accept messages of that type.
            MailboxFull: its mailbox has a limit, and no room.
        """
        return await self._context.post.ask(self.name, message, timeout_s)

    def query(self, name: str, *args: Any) -> Any:
        """Return what a method of the harness that is a `query` says of the state after the last recorded step.

        It does not touch the step being made, and answers while the harness waits, is held or has ended.

        Raises:
            UsageError: there is no such query, or the harness has not been taken up yet.
            Exception: what the query raised.
        """
        if not self._child.record.is_restored:
            raise UsageError(f"query {name!r}: harness {self.name!r} has not been taken up yet: expected a moment later")
        return ask_query(self._child.harness, name, args)

    def steps(self, after: int = 0) -> Steps:
        """Iterate over the committed steps from number `after + 1`, past and live, without gap or repeat.

        The iteration ends when the harness has ended and its last step was given. Within a harness that is itself told to
        stop by then, as all are when the program stops, it raises `Stopping` instead: the follower is stopped, not finished,
        and goes on when it is started again.
        """
        return Steps(self._child, self._context.recorder.store, after)


@define(eq=False)
class Steps:
    """An async iterator over the committed steps of one harness."""

    _child: Child
    _store: Store
    _after: int
    _missing: int = 0
    """The last step of those that were looked for and are not in the store: pruned, or another run's."""
    _page: list[StepRecord] = field(factory=list[StepRecord])

    def __aiter__(self) -> Steps:
        return self

    async def __anext__(self) -> StepRecord:
        child = self._child
        while not self._page:
            await child.recorded.until(lambda: self._has_news() or child.done)
            if not self._has_news():
                await unwind_if_stopping()
                raise StopAsyncIteration
            newest = child.record.step
            self._page = (await self._read())[::-1]
            if not self._page:
                self._missing = newest
        await trio.lowlevel.checkpoint()
        record = self._page.pop()
        self._after = record.step_number
        return record

    def _has_news(self) -> bool:
        return self._child.record.step > max(self._after, self._missing)

    async def _read(self) -> list[StepRecord]:
        store, name, after = self._store, self._child.name, self._after
        if store.blocking and not jumps():
            records = await trio.to_thread.run_sync(lambda: store.steps(name, after=after, limit=_PAGE))
        else:
            records = store.steps(name, after=after, limit=_PAGE)
        return [self._child.types.record(record) for record in records]


def recorded(receipt: Receipt | None) -> Order:
    """Return an order that is carried out when its record is on disk; there may be none to make."""

    async def wait() -> None:
        if receipt is None:
            await trio.lowlevel.checkpoint()
        else:
            await receipt

    return Order(wait)


def answered(receipt: Receipt) -> Order:
    """Return an order that gives, when it is on disk, whether it has changed anything."""

    async def wait() -> bool:
        return bool(await receipt)

    return Order(wait)


_CONVERTED: tuple[type, ...] = (int, float, bool)
"""What arguments are made, where they are annotated so, by the type or its name."""
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def ask_query(harness: BaseHarness[Any, Any, Any], name: str, args: Sequence[Any]) -> Any:
    """Return what a query of a harness says of the state of its last recorded step, as a value of the caller's own.

    It is asked of a copy of the harness, which `update_state` changes and nothing else. That has no surroundings, so it sends
    nothing, spends nothing and waits for nothing; what it raises is raised for whoever asks, and for nobody else.

    Raises:
        UsageError: there is no such query, or it is a coroutine function.
        Exception: what it raised.
    """
    queries = queries_of(type(harness))
    if name not in queries:
        known = one_of(sorted(queries), "it has none; mark a method with `@query`")
        raise UsageError(f"query {name!r:.100} of {type(harness).__name__}: {known}")
    method = queries[name]
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise UsageError(f"query {name!r} of {type(harness).__name__}: expected a plain method, was one that waits; use `ask`")
    return detach(method(_recorded_copy(harness), *_converted(name, method, args)))


def _converted(name: str, method: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    """Return arguments as they are annotated, where that is int, float or bool: a command line has text and whole numbers.

    Raises:
        UsageError: one cannot be made that.
    """
    _, *parameters = inspect.signature(method).parameters.values()
    by_place = [parameter for parameter in parameters if parameter.kind in _BY_PLACE]
    made = [_made(name, parameter, value) for parameter, value in zip(by_place, args, strict=False)]
    return [*made, *args[len(made) :]]


def _made(name: str, parameter: inspect.Parameter, value: Any) -> Any:
    kind = next((one for one in _CONVERTED if parameter.annotation in (one, one.__name__)), None)
    if kind is None or isinstance(value, kind) or value is parameter.default:
        return value
    try:
        return msgspec.convert(value, cast(Any, kind), strict=False)
    except msgspec.ValidationError:
        raise UsageError(
            f"query {name!r}: {parameter.name}: expected {kind.__name__}, was {value!r:.100}; correct the argument"
        ) from None


def _recorded_copy(harness: BaseHarness[Any, Any, Any]) -> BaseHarness[Any, Any, Any]:
    """Return a copy of a harness that does not run, with the state of the last recorded step."""
    view = copy.copy(harness)
    view.become_recorded()
    return view
