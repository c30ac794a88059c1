"""`BaseHarness`: a long-running loop that its author writes as one async generator.

The law: `execute()` is not resumed after a `yield` until the step is recorded; `current_step` and `step_history` show
recorded steps only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

import trio

from harnesses.agent import Agent
from harnesses.control import Ending
from harnesses.delta import Delta
from harnesses.driver import drive, explained
from harnesses.errors import HarnessMisuse, StateError, Unstorable, located
from harnesses.runtime import LocalRuntime, Runtime
from harnesses.state import LoadSteps, PersistentState
from harnesses.step import Constraints, InputT, LoadedContext, OutputT, StateT, Step, StepYield
from harnesses.ticks import Every
from harnesses.values import ATOMS, detach, explain

_NO_CONSTRAINTS: Constraints = MappingProxyType({})
AskT = TypeVar("AskT")
AnswerT = TypeVar("AnswerT")


class BaseHarness(ABC, Generic[StateT, InputT, OutputT]):
    """Extend it and write `execute()`.

    Args:
        initial_state: the state before the first step; detached, so the caller's object is never touched. A harness that
            is resumed from a store starts from the state stored there instead.
        max_context_steps: how many recent steps agents get to see.
        constraints: limits handed to the agents.
    """

    def __init__(self, initial_state: StateT, *, max_context_steps: int = 10, constraints: Constraints | None = None) -> None:
        self.constraints: Constraints = MappingProxyType(dict(constraints)) if constraints else _NO_CONSTRAINTS
        self._state: PersistentState[StateT, InputT, OutputT] = PersistentState(initial_state, max_context_steps)
        self.runs_as: str | None = None
        """The name it runs under, while somebody else than its author has charge of it."""
        self._runtime: Runtime | None = None
        self._task: trio.lowlevel.Task | None = None

    @abstractmethod
    def execute(self) -> AsyncIterator[StepYield[InputT, OutputT] | tuple[InputT, OutputT]]:
        """Yield `(input, output)` for each step. An async generator.

        It is called anew at each start and restart, with `self.state` as of the last recorded step: derive everything from
        `self.state`, for local variables do not survive. A change of the state that is not followed by a `yield` did not
        happen. A `yield` returns when the step is recorded.
        """

    def is_complete(self) -> bool:
        """Return whether the work is done. Asked after each recorded step, so at least one step is made."""
        return False

    @property
    def state(self) -> StateT:
        """The current state. Changing what you get, where it can be changed at all, changes nothing here."""
        return self._state.state

    @property
    def current_step(self) -> int:
        """The number of the last recorded step; 0 before the first. While a step is being made, still the last one's."""
        return self._state.steps

    @property
    def step_history(self) -> Sequence[Step[InputT, OutputT]]:
        """The recorded steps, oldest first."""
        return self._state.step_history

    def update_state(self, change: Callable[[StateT], StateT], *, summary: str | None = None) -> None:
        """Replace the state by `change(state)`; see `PersistentState.update_state`."""
        try:
            self._state.update_state(change, summary=summary)
        except (StateError, Unstorable) as error:
            raise located(error, self._where()) from error

    def load_context(self) -> LoadedContext[StateT]:
        """Return the state and at most `max_context_steps` recent steps, oldest first."""
        return self._state.load_context()

    async def run_agent(self, agent: Agent[StateT, AskT, AnswerT], input: AskT) -> AnswerT:
        """Ask `agent`, telling it this harness's context, the number of the step being made and the constraints."""
        context = self.load_context()
        return await agent.run(
            input=input,
            context=context,
            step_number=self._state.steps + 1,
            step_history=context.recent_steps,
            constraints=self.constraints,
        )

    async def sleep(self, seconds: float) -> None:
        """Sleep on Trio's clock. Unlike `trio.sleep` it ends at once, cleanly, when the harness is told to stop."""
        await self._surroundings("sleep").sleep(seconds)

    def every(self, period_s: float) -> Every:
        """Return an async iterator of ticks, the first at once, then every `period_s` seconds without drift.

        Ticks that are missed because a step took longer than the period are skipped: the next one comes at the next
        multiple of the period.
        """
        return Every(period_s, self.sleep)

    async def receive(self) -> Any:
        """Take the next message from this harness's mailbox, waiting for one.

        The message counts as consumed with the next `yield`; after a crash before that it is delivered again.
        """
        return await self._surroundings("receive").receive()

    async def send(self, to: str, message: object) -> None:
        """Put a message, any value that JSON can carry, in the mailbox of the harness called `to`."""
        await self._surroundings("send").send(to, message)

    @property
    def max_context_steps(self) -> int:
        """How many recent steps agents get to see."""
        return self._state.max_context_steps

    def rewind(self) -> None:
        """Undo what was not recorded. For whoever runs the harness, between two attempts."""
        self._state.rewind()

    def restore(self, state: StateT, step: int, load: LoadSteps) -> None:
        """Take up a recorded past; see `PersistentState.restore`. For whoever runs the harness, before an attempt."""
        if self._task is not None:
            raise HarnessMisuse(f"{self._where()}: it runs already: expected a harness of its own for each name")
        self._state.restore(state, step, load)

    async def run(self, runtime: Runtime | None = None) -> Ending:
        """Iterate `execute()` until it is exhausted, `is_complete()` is true or the harness is told to stop.

        Args:
            runtime: the surroundings. Without one the harness runs alone and its steps are kept in memory.

        Raises:
            HarnessMisuse: it runs already.
            Exception: what `execute()` raised. Steps recorded before stay recorded.
        """
        if self._task is not None:
            raise HarnessMisuse(self._already_running())
        if runtime is None or (isinstance(runtime, LocalRuntime) and not runtime.control.attached):
            return await run_alone(self, runtime or LocalRuntime(type(self).__name__))
        self._task, self._runtime = trio.lowlevel.current_task(), runtime
        try:
            if runtime.resumed and self._state.steps and self.is_complete():
                return Ending.COMPLETED
            return await drive(self._generator(), runtime.control, _Ledger(self, self._state, runtime))
        except BaseException as error:
            rest = explained(error)
            if rest is None:
                return Ending.STOPPED
            rest = located(rest, self._where())
            if rest is error:
                raise
            raise rest from error
        finally:
            self._task = self._runtime = None

    def _generator(self) -> AsyncGenerator[Any, None]:
        generator = cast(Any, self.execute())
        if hasattr(generator, "__anext__") and hasattr(generator, "aclose"):
            return cast(AsyncGenerator[Any, None], generator)
        if hasattr(generator, "close"):
            generator.close()
        raise HarnessMisuse(
            f"{self._where()}: execute() is not an async generator: expected `async def` with a `yield` in it, "
            f"was {type(generator).__name__}"
        )

    def _surroundings(self, verb: str) -> Runtime:
        if self._runtime is None:
            raise HarnessMisuse(f"{verb}: {type(self).__name__} is not running; call it from execute()")
        return self._runtime

    def _where(self) -> str:
        name = self._runtime.name if self._runtime is not None else type(self).__name__
        return _place(name, self._state.steps)

    def _already_running(self) -> str:
        if self._task is trio.lowlevel.current_task():
            return f"{self._where()}: run() was called from execute(), which it is running; yield the steps instead"
        return f"{self._where()}: run() was called while it runs: expected one run at a time; make a second harness"


def _place(name: str, steps: int) -> str:
    return f"harness {name!r}, step {steps + 1}"


_PAIRS: Any = (tuple, list)


class _Ledger:
    """Takes the steps of one attempt from the loop to the runtime and back."""

    __slots__ = ("_harness", "_runtime", "_state")

    def __init__(self, harness: BaseHarness[Any, Any, Any], state: PersistentState[Any, Any, Any], runtime: Runtime) -> None:
        self._harness = harness
        self._state = state
        self._runtime = runtime

    def make(self, pair: Any) -> tuple[Step[Any, Any], Delta]:
        if not isinstance(pair, _PAIRS) or len(pair) != 2:
            raise HarnessMisuse(
                f"{self._where()}: execute() yielded {pair!r:.200}: expected StepYield(input=…, output=…) or a pair"
            )
        given, made = pair
        if given.__class__ not in ATOMS:
            given = self._private("input", given)
        if made.__class__ not in ATOMS:
            made = self._private("output", made)
        state = self._state
        state_delta, delta = state.take_delta()
        return Step(state.steps + 1, datetime.now(UTC), given, made, state_delta), delta

    def commit(self, step: Step[Any, Any], delta: Delta) -> Awaitable[None]:
        return self._runtime.commit(step, delta, self._state.snapshot)

    def accept(self, step: Step[Any, Any]) -> None:
        self._state.append(step)

    def is_complete(self) -> bool:
        return self._harness.is_complete()

    def take_back(self) -> None:
        self._state.untake_delta()

    def _private(self, role: str, value: Any) -> Any:
        try:
            return detach(value)
        except Unstorable as error:
            raise Unstorable(f"{self._where()}: {explain(value, role)}") from error

    def _where(self) -> str:
        return _place(self._runtime.name, self._state.steps)


async def run_alone(harness: BaseHarness[Any, Any, Any], runtime: LocalRuntime) -> Ending:
    """Run a harness beside a watcher, which tells the loop of a cancellation that it could not see from the generator.

    The loop has a task of its own: a nursery that `execute()` leaves open spoils that one, not the caller's.
    """
    control = runtime.control
    control.ending = control.failure = failure = None
    ended = False

    async def attempt() -> None:
        nonlocal failure, ended
        try:
            with trio.CancelScope() as scope:
                control.attach(scope)
                control.ending = await harness.run(runtime)
            if control.ending is None:
                failure = control.failure or control.why_cancelled()
        except trio.Cancelled:
            raise
        except BaseException as error:
            failure = explained(error)
        finally:
            ended = True
            control.detach()
        nursery.cancel_scope.cancel()

    async def watch() -> None:
        try:
            await trio.sleep_until(control.deadline)
            control.expire()
            await trio.sleep_forever()
        finally:
            if not ended:
                control.abort()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            nursery.start_soon(attempt)
    except (trio.Cancelled, BaseExceptionGroup) as error:
        rest = error.split(trio.Cancelled)[1] if isinstance(error, BaseExceptionGroup) else None
        if failure is None and rest is None:
            raise
        failure = failure or explained(cast(Any, rest).exceptions[0])
    if failure is not None:
        harness.rewind()
        try:
            raise located(failure, _place(runtime.name, harness.current_step))
        finally:
            del failure
    return control.ending or Ending.STOPPED
