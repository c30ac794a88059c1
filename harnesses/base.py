"""`BaseHarness`: a long-running loop that its author writes as one async generator.

The law: `execute()` is not resumed after a `yield` until the step is recorded; `current_step` and `step_history` show
recorded steps only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast, overload

import trio

from harnesses.agent import Agent
from harnesses.alone import run_alone
from harnesses.budget import NOTHING, UNLIMITED, Budget, Spend
from harnesses.control import Ending
from harnesses.driver import drive, explained
from harnesses.effects import Effect, EffectOutcome, Reconcile
from harnesses.errors import HarnessError, HarnessMisuse, StateError, Unstorable, located
from harnesses.ledger import StepLedger, place
from harnesses.runtime import LocalRuntime, Runtime
from harnesses.schedule import Missed
from harnesses.spending import Spending, left, limits
from harnesses.state import LoadSteps, PersistentState
from harnesses.step import Constraints, InputT, LoadedContext, OutputT, StateT, Step, StepYield
from harnesses.ticks import Every, parse_moment

_NO_CONSTRAINTS: Constraints = MappingProxyType({})
AskT = TypeVar("AskT")
AnswerT = TypeVar("AnswerT")


class _Look(Generic[AnswerT]):
    """A property that gives way to an attribute of the same name: harnesses have had theirs before these came."""

    def __init__(self, look: Callable[[Any], AnswerT]) -> None:
        self._look = look
        self.__doc__ = look.__doc__

    def __get__(self, harness: Any, cls: type) -> AnswerT:
        return cast(AnswerT, self) if harness is None else self._look(harness)


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
        self._alone: LocalRuntime | None = None
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
        """Replace the state by `change(state)`; see `PersistentState.update_state`.

        Args:
            summary: a sentence about the change, kept with the step. One that begins with `! ` is shown to whoever watches.
        """
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
        till = None if self._runtime is None else self._runtime.till
        if till is not None and limits(till).turns is not None:
            # Charged before it is taken: then nobody holds a turn while they wait for something else.
            async with Spending(till, Spend(turns=1)):
                pass
        return await agent.run(
            input=input,
            context=context,
            step_number=self._state.steps + 1,
            step_history=context.recent_steps,
            constraints=self.constraints,
            log=partial(self.log, source=agent.name),
        )

    def log(self, line: str, *, source: str = "") -> None:
        """Have a line of output recorded, and shown in the log, while the step is being made. Does not wait.

        Args:
            source: whose it is. Of one step 10,000 lines are recorded; of the rest, how many there were.
        """
        if self._runtime is not None:
            self._runtime.log(line, source)

    def spending(self, *, tokens: int = 0, money: Decimal = NOTHING.money, tool_calls: int = 0, turns: int = 0) -> Spending:
        """Reserve what is about to be spent, the most that it can be, for the time of an `async with`.

            async with self.spending(tokens=2000, money=Decimal("0.05")) as spend:
                answer = await ask_a_model(max_tokens=2000)
                spend.settle(tokens=answer.tokens, money=answer.price)

        It is on disk before the block is entered. What is not settled in the block is charged in full, also if the program
        crashes in it. Waits for what other harnesses have reserved and may give back; so keep the block short, and wait for
        none of them in it.

        Raises, on entering:
            BudgetExhausted: there is no room for it. Let it pass: the outcome is then "budget spent".
        """
        most = Spend(turns=turns, tool_calls=tool_calls, tokens=tokens, money=money)
        return Spending(self._surroundings("spending").till, most)

    @_Look
    def budget(self) -> Budget:
        """What is left to spend now: in its own budget and in all that it shares."""
        till = self._surroundings("budget").till
        return UNLIMITED if till is None else left(till)

    async def sleep(self, seconds: float) -> None:
        """Sleep on Trio's clock. Unlike `trio.sleep` it ends at once, cleanly, when the harness is told to stop."""
        await self._surroundings("sleep").sleep(seconds)

    async def sleep_until(self, when: datetime | float) -> None:
        """Sleep until a moment of the wall clock, which may be set meanwhile; return at once if it has passed.

        Args:
            when: an aware datetime, or seconds since 1970.
        """
        runtime = self._surroundings("sleep_until")
        await runtime.clock.sleep_until(parse_moment(when), runtime.sleep)

    def now(self) -> datetime:
        """Return the time by the wall clock, in UTC. Under Trio's virtual clock it goes with that."""
        return datetime.fromtimestamp(self._surroundings("now").clock.now(), UTC)

    def every(
        self,
        period_s: float,
        *,
        anchor: datetime | None = None,
        jitter_s: float = 0.0,
        missed: Missed | str = Missed.SKIP,
        name: str = "",
    ) -> Every:
        """Return an async iterator of ticks, numbered from 0, that goes on where it was after a crash and after a restart.

        A tick counts as used with the step that follows it: after a crash before that it comes again, for as long as its
        period lasts.

        Args:
            period_s: seconds from tick to tick, without drift. Whole days keep the time of day in the anchor's time zone.
            anchor: when tick 0 is due, an aware datetime: then ticks come at moments of the wall clock. Without it the first
                one comes at once, and the others by Trio's clock.
            jitter_s: each tick comes up to so many seconds late; the same ones after a restart.
            missed: what becomes of ticks whose time has passed: `skip` drops them, `coalesce` gives one for all of them at
                once, `catch_up` gives each of them at once.
            name: what it is known by after a restart; needed to have two of the same period and anchor side by side.
        """
        runtime = self._surroundings("every")
        return Every(
            period_s,
            runtime.sleep,
            book=runtime.ticks,
            clock=runtime.clock,
            harness=runtime.name,
            anchor=anchor,
            jitter_s=jitter_s,
            missed=missed,
            name=name,
        )

    async def receive(self) -> Any:
        """Take the next message from this harness's mailbox, waiting for one.

        The message counts as consumed with the next `yield`; after a crash before that it is delivered again.
        """
        return await self._surroundings("receive").receive()

    async def send(self, to: str, message: object) -> None:
        """Put a message, any value that JSON can carry, in the mailbox of the harness called `to`."""
        await self._surroundings("send").send(to, message)

    def receive_nowait(self) -> Any:
        """Take the next message from this harness's mailbox; see `receive`.

        Raises:
            trio.WouldBlock: there is none.
        """
        return self._surroundings("receive_nowait").receive_nowait()

    @overload
    async def once(
        self,
        key: str,
        function: Callable[..., Awaitable[AnswerT]],
        *args: Any,
        reconcile: Reconcile | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
    ) -> AnswerT: ...

    @overload
    async def once(
        self,
        key: str,
        function: Callable[..., AnswerT],
        *args: Any,
        reconcile: Reconcile | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
    ) -> AnswerT: ...

    async def once(
        self,
        key: str,
        function: Callable[..., Any],
        *args: Any,
        reconcile: Reconcile | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
    ) -> Any:
        """Do an effect, an act on the world that must not happen twice, and return what came of it.

        The intent is on disk before `function(*args)` is called, and the outcome after it, both with the step being made.
        Called again with this key in the same step, also after a crash, it returns the recorded result.

        Args:
            key: names the effect within this step.
            function: does it. Raises `Refused` if it has certainly not happened; any other error, a timeout or a
                cancellation leaves that open. What it returns is read back in its annotated return type.
            args: are stored, and the same ones are expected when the effect is taken up again.
            reconcile: is called with the key and the arguments to find out what became of an effect of unknown outcome;
                returns `Confirmed(result)`, `NotDone()` or `Undecided(reason)`, or raises `Refused`.
            idempotent: says that doing it again does no harm; then an unknown one is done again.
            timeout_s: seconds after which the call is cancelled, and of unknown outcome.

        Raises:
            Refused: the world has said no, now or before.
            UnknownOutcome: nobody knows what became of it. Let it pass: the harness is then blocked until a person decides.
            Latched: the latch is on.
            Exception: what the function raised, if it has not happened or is idempotent.
        """
        runtime = self._surroundings("once")
        try:
            return await runtime.effects.once(
                runtime, key, function, args, reconcile=reconcile, idempotent=idempotent, timeout_s=timeout_s
            )
        except HarnessError as error:
            named = located(error, self._where())
            if named is error:
                raise
            raise named from error.__cause__

    async def settle(self, key: str, reconcile: Reconcile) -> EffectOutcome:
        """Find out what became of an effect of the step being made, without doing it; return its outcome.

        `reconcile` gets the arguments as they are on disk, as plain data: a `Decimal` is text.

        Raises:
            UnknownOutcome: `reconcile` does not know either.
        """
        runtime = self._surroundings("settle")
        try:
            return await runtime.effects.settle(runtime, key, reconcile)
        except HarnessError as error:
            raise located(error, self._where()) from error.__cause__

    @_Look
    def effects(self) -> tuple[Effect, ...]:
        """What is on record of the effects of the step being made, from this attempt and from those that crashed."""
        return self._surroundings("effects").effects.known()

    @_Look
    def name(self) -> str:
        """The durable name it runs under; the name of its class while it does not run."""
        return self._runs_as()

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
            # What is known of effects outlives a run: it may have crashed.
            self._alone = runtime = runtime or LocalRuntime(type(self).__name__, after=self._alone)
            return await run_alone(self, runtime)
        self._task, self._runtime = trio.lowlevel.current_task(), runtime
        try:
            if runtime.resumed and self._state.steps and self.is_complete():
                return Ending.COMPLETED
            return await drive(self._generator(), runtime.control, StepLedger(self, self._state, runtime), runtime.meter)
        except BaseException as error:
            rest = explained(error)
            if rest is None:
                return Ending.STOPPED
            rest = located(rest, self._where())
            if rest is error:
                raise
            raise rest from error
        finally:
            runtime.end_attempt()
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
        return place(self._runs_as(), self._state.steps)

    def _runs_as(self) -> str:
        return self._runtime.name if self._runtime is not None else self.runs_as or type(self).__name__

    def _already_running(self) -> str:
        if self._task is trio.lowlevel.current_task():
            return f"{self._where()}: run() was called from execute(), which it is running; yield the steps instead"
        return f"{self._where()}: run() was called while it runs: expected one run at a time; make a second harness"
