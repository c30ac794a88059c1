"""`Handle`, the user's access to one harness: orders, messages, queries and steps."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, cast

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
from orchestrator.runtime.turn_feed import TurnEvents
from orchestrator.store.store_protocol import Store

_PAGE = 256
"""How many committed steps are read at a time."""


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    HandleStateT = TypeVar("HandleStateT", covariant=True, default=Any)
    HandleInputT = TypeVar("HandleInputT", covariant=True, default=Any)
    HandleOutputT = TypeVar("HandleOutputT", covariant=True, default=Any)
    ResultT = TypeVar("ResultT", covariant=True, default=Any)
else:
    from typing import TypeVar

    HandleStateT = TypeVar("HandleStateT", covariant=True)
    HandleInputT = TypeVar("HandleInputT", covariant=True)
    HandleOutputT = TypeVar("HandleOutputT", covariant=True)
    ResultT = TypeVar("ResultT", covariant=True)


class Order(Generic[ResultT]):
    """An order that was given. Awaiting it is optional, and returns when the order is recorded or carried out."""

    def __init__(self, wait: Callable[[], Coroutine[Any, Any, ResultT]]) -> None:
        self._wait = wait

    def __await__(self) -> Generator[Any, Any, ResultT]:
        return self._wait().__await__()


class Handle(Generic[HandleStateT, HandleInputT, HandleOutputT]):
    """One harness as its operator sees it. Orders take effect at once; awaiting one waits until it is recorded.

    Type checkers know what the steps of a handle hold: `Orchestrator.start` returns a `Handle[StateT, InputT, OutputT]` for a
    `BaseHarness[StateT, InputT, OutputT]`. Without type arguments they may be anything.
    """

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
        """Lifecycle status of the harness."""
        return self._child.record.status

    @property
    def current_step(self) -> int:
        """Number of the last step that the harness has gone on after: the last recorded one, unless it has
        `durability="group"`.
        """
        return self._child.record.accepted_step

    @property
    def durable_step(self) -> int:
        """Number of the last step that is on disk."""
        return self._child.record.step

    @property
    def live(self) -> Live | None:
        """Current activity and its duration; None while no attempt is running."""
        return self._child.doing

    @property
    def gauges(self) -> Mapping[str, float]:
        """Numbers that the harness tells of its work by its attribute `gauges`; none while no attempt is running."""
        return self._child.gauges

    @property
    def attempt(self) -> int:
        """Number of the running attempt, or of the last one; counted from 1."""
        return self._child.record.attempt

    @property
    def outcome(self) -> Outcome | None:
        """How the harness ended; None while it has not ended."""
        return self._child.outcome

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop, or has ended."""
        orders = self._child.orders
        return self.outcome is not None or (orders.stopping is not None and orders.then is None)

    async def wait(self) -> Outcome:
        """Wait until the harness has ended, and return its outcome."""
        return await self._child.wait_done()

    def pause(self) -> Order[None]:
        """Pause the harness at its next step boundary. The pause outlasts restarts of the harness and of the program."""
        return recorded(self._child.orders.pause())

    def resume(self) -> Order[None]:
        """Let a paused harness continue."""
        return recorded(self._child.orders.resume())

    def stop(self, grace: float | None = None) -> Order[Outcome]:
        """Stop the harness at its next step boundary, or at its next wait. Starting it again resumes it.

        Args:
            grace: seconds until it is cancelled; default is the orchestrator's.

        Awaiting the order waits for the end and returns the outcome.
        """
        self._child.orders.stop(grace)
        return Order(self.wait)

    @property
    def time_limits(self) -> dict[str, float | None]:
        """The limits in force, in seconds: `step_timeout_s`, `deadline_s` and `period_s`; None for no limit.

        There is no period unless the harness uses exactly one ticker, `every(…)`.
        """
        return self._child.limits().now

    def set_time_limits(self, limits: Mapping[str, float | None], *, by: str, reason: str = "") -> Order[bool]:
        """Set time limits while the harness runs, at once; the step in progress has the new ones too.

        They hold over restarts, of the program too, until the program declares another value than it does now; those of a
        harness that has ended take effect when it is started again. Awaiting the order waits for the disk, and returns whether
        anything is changed.

        Args:
            limits: seconds by name, as `time_limits` has them; None for no limit. `deadline_s` counts from the start of the
                harness in this program.
            by: who sets them. It is on record, as is `reason`.

        Raises:
            UsageError: a limit cannot be set; nothing is changed.
        """
        if not by.strip():
            raise UsageError("by: expected who sets the limits, got nothing; whoever reads this later will want to know")
        if not self._child.record.is_restored:
            raise UsageError(f"harness {self.name!r} has not been loaded yet: expected one that runs; try again in a moment")
        receipt = self._child.limits().set(limits, by=by, reason=reason)
        return answered(receipt) if receipt is not None else Order(_unchanged)

    def send(self, message: object) -> Order[None]:
        """Put a message, any value that JSON can represent, into the harness's mailbox. Awaiting the order waits for the disk.

        Raises:
            HarnessMisuse: the harness does not accept messages of that type.
            Unstorable: the value cannot be stored as JSON.
        """
        return recorded(self._context.post.post(self.name, "", message))

    def check(self, message: object) -> None:
        """Raise if `send` would refuse a message; nothing is sent.

        Raises:
            HarnessMisuse: the harness does not accept messages of that type; the error names the accepted types.
            Unstorable: the value cannot be stored as JSON.
        """
        self._context.post.encoded(self.name, message)

    async def ask(self, message: object, *, timeout_s: float = ASK_TIMEOUT_S) -> Any:
        """Send a request and return the harness's reply as plain data, once the reply is on disk.

        Raises:
            AskTimeout: no reply came in time; a later one is recorded, then dropped.
            HarnessMisuse: the harness does not accept messages of that type.
            MailboxFull: the mailbox is at its limit.
        """
        return await self._context.post.ask(self.name, message, timeout_s)

    def query(self, name: str, *args: Any) -> Any:
        """Call a `@query` method of the harness on the state after the last recorded step, and return its result.

        The step in progress is not touched. It works while the harness waits, is paused or has ended.

        Raises:
            UsageError: there is no such query, or the harness has not been loaded yet.
            Exception: the query raised it.
        """
        if not self._child.record.is_restored:
            raise UsageError(f"query {name!r}: harness {self.name!r} has not been loaded yet: expected a moment later")
        return ask_query(self._child.harness, name, args)

    def steps(self, after: int = 0) -> Steps[HandleInputT, HandleOutputT]:
        """Iterate over the committed steps from number `after + 1`, past and live, without gaps or repeats.

        The iteration ends when the harness has ended and its last step was returned. If the iterating code is itself a harness
        that is being stopped by then, as all are when the program stops, it raises `Stopping` instead: the follower counts as
        stopped, not finished, and continues when it is started again.
        """
        return Steps(self._child, self._context.recorder.store, after)

    def saying(self) -> str:
        """Return the end of the text that an agent of the harness is saying, without secrets; empty if none is."""
        return self._child.saying()

    def turn_events(self) -> TurnEvents:
        """Iterate over the events of the turns of the harness's agents from now on: text, reasoning, tool calls, results.

            async for update in handle.turn_events():
                print(update.event.text, end="")

        Events are shown without secrets, are not recorded, and never slow the harness down: a slow subscriber misses the
        oldest ones, whose number is `dropped` of the next. The iteration ends when the harness has ended; see `steps`.
        """
        child = self._child
        return TurnEvents(child.turns(), lambda: child.done)


@define(eq=False)
class Steps(Generic[HandleInputT, HandleOutputT]):
    """An async iterator over the committed steps of one harness."""

    _child: Child
    _store: Store
    _after: int
    _missing: int = 0
    """Highest step number that was looked for and not found in the store: it was pruned, or another run has it."""
    _page: list[StepRecord] = field(factory=list[StepRecord])

    def __aiter__(self) -> Steps[HandleInputT, HandleOutputT]:
        return self

    async def __anext__(self) -> StepRecord[HandleInputT, HandleOutputT]:
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


async def _unchanged() -> bool:
    await trio.lowlevel.checkpoint()
    return False


def recorded(receipt: Receipt | None) -> Order[None]:
    """Return an order that completes when its record is on disk, or at once if there is nothing to record."""

    async def wait() -> None:
        if receipt is None:
            await trio.lowlevel.checkpoint()
        else:
            await receipt

    return Order(wait)


def answered(receipt: Receipt) -> Order[bool]:
    """Return an order that completes when its record is on disk, and whose result is whether it changed anything."""

    async def wait() -> bool:
        return bool(await receipt)

    return Order(wait)


_CONVERTED: tuple[type, ...] = (int, float, bool)
"""Types that query arguments are converted to where a parameter is annotated with the type or its name."""
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def ask_query(harness: BaseHarness[Any, Any, Any], name: str, args: Sequence[Any]) -> Any:
    """Call a query on a copy of the harness and return the result, detached from the harness.

    The copy has the state of the last recorded step and no runtime: it cannot send, spend or wait. Changes to its state and
    errors that it raises do not reach the harness.

    Raises:
        UsageError: there is no such query, or it is a coroutine function.
        Exception: the query raised it.
    """
    queries = queries_of(type(harness))
    if name not in queries:
        known = one_of(sorted(queries), "it has none; mark a method with `@query`")
        raise UsageError(f"query {name!r:.100} of {type(harness).__name__}: {known}")
    method = queries[name]
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise UsageError(
            f"query {name!r} of {type(harness).__name__}: expected a plain method, was a coroutine function; use `ask`"
        )
    return detach(method(_recorded_copy(harness), *_converted(name, method, args)))


def _converted(name: str, method: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    """Convert arguments to int, float or bool where their parameters are annotated so; a command line passes text.

    Raises:
        UsageError: a value cannot be converted.
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
    """Return a copy of a harness that is not running, with the state of the last recorded step."""
    view = copy.copy(harness)
    view.become_recorded()
    return view
