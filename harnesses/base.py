"""`BaseHarness`: a long-running loop that its author writes as one async generator.

The law: `execute()` is not resumed after a `yield` until the step is recorded; `current_step` and `step_history` show
recorded steps only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast, final

import trio
from attrs import fields

from harnesses.agent import Agent
from harnesses.alone import run_alone
from harnesses.bill import Bill, billed, calls_limit, check_held, check_left, takes_charge
from harnesses.budget import Spend
from harnesses.config import HarnessConfig
from harnesses.control import Ending
from harnesses.diagnosis import diagnosed
from harnesses.driver import drive, explained
from harnesses.errors import HarnessMisuse, StateError, Unstorable, located
from harnesses.held import unheld
from harnesses.ledger import StepLedger
from harnesses.requests import check_sent, types_of
from harnesses.runtime import LocalRuntime, Runtime
from harnesses.spending import Spending, limits, settled_here
from harnesses.state import LoadSteps, PersistentState
from harnesses.step import Constraints, InputT, LoadedContext, OutputT, StateT, Step, StepYield
from harnesses.unawaited import Calls
from harnesses.values import detach
from harnesses.verbs import Verbs

_NO_CONSTRAINTS: Constraints = MappingProxyType({})
AskT = TypeVar("AskT")
AnswerT = TypeVar("AnswerT")


class BaseHarness(Verbs, ABC, Generic[StateT, InputT, OutputT]):
    """Extend it and write `execute()`.

    Args:
        initial_state: the state before the first step; detached, so the caller's object is never touched. A harness that
            is resumed from a store starts from the state stored there instead. Or a `HarnessConfig`: then `initial_state`,
            `max_context_steps` and `constraints` are taken from it, and it may set nothing else.
        max_context_steps: how many recent steps agents get to see.
        constraints: limits handed to the agents.
    """

    def __init__(
        self,
        initial_state: StateT | HarnessConfig[StateT],
        *,
        max_context_steps: int = 10,
        constraints: Constraints | None = None,
    ) -> None:
        if isinstance(initial_state, HarnessConfig):
            config = cast(HarnessConfig[StateT], initial_state)
            _check_config(config, type(self).__name__)
            initial_state = config.initial_state
            max_context_steps = config.max_context_steps if max_context_steps == 10 else max_context_steps
            constraints = constraints or config.constraints
        self.constraints: Constraints = MappingProxyType(dict(constraints)) if constraints else _NO_CONSTRAINTS
        self._state: PersistentState[StateT, InputT, OutputT] = PersistentState(initial_state, max_context_steps)
        self.runs_as: str | None = None
        self._runtime: Runtime | None = None
        self._alone: LocalRuntime | None = None
        self._task: trio.lowlevel.Task | None = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if cast(Any, cls).run is not cast(Any, BaseHarness).run:
            raise HarnessMisuse(
                f"{cls.__qualname__}.run is overridden: expected execute() alone, for run() records the steps; "
                "rename it, or write execute()"
            )

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

    def reopens(self) -> bool:
        """Return whether there is more to do, although it was completed. Asked when a completed harness is started again."""
        return False

    @property
    def state(self) -> StateT:
        """The current state, read-only: changing what you get raises `HarnessMisuse`; use `update_state`."""
        try:
            return self._state.state
        except AttributeError:
            self.check_made()
            raise

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
        except AttributeError:
            self.check_made()
            raise

    def load_context(self) -> LoadedContext[StateT]:
        """Return the state and at most `max_context_steps` recent steps, oldest first."""
        return self._state.load_context()

    def know(self, knowledge: Mapping[str, object]) -> None:
        """Have agents told this, too, from now on: the `relevant_knowledge` of their context. Data, never instructions.

        It is no part of the state: a harness that is started again begins with none.
        """
        self._state.knowledge = MappingProxyType(dict(detach(knowledge)))

    def asked_agents(self) -> Sequence[Agent[Any, Any, Any]]:
        """Return the agents that it asks by `run_agent`, as far as it knows them beforehand: a limit that cannot be held for
        one of them is refused when the harness is started. None of those that `execute()` chooses, or charges itself."""
        return ()

    async def run_agent(self, agent: Agent[StateT, AskT, AnswerT], input: AskT) -> AnswerT:
        """Ask `agent`, telling it this harness's context, the number of the step being made and the constraints.

        What it reports while it works is charged to the budget at once, except for what is reserved around this by `spending`.

        Raises:
            BudgetExhausted: a limit is reached; the agent was stopped, or not asked. Let it pass.
            HarnessMisuse: a limit cannot be held for this agent, which does not report what it uses of it.
        """
        context = self.load_context()
        runtime = self._runtime
        till = None if runtime is None else runtime.till
        if till is not None:
            check_held(till, agent)
            check_left(till, agent)
        if till is not None and limits(till).turns is not None:
            # Charged before it is taken: then nobody holds a turn while they wait for something else.
            async with Spending(till, Spend(turns=1)):
                pass
        watch = None if runtime is None else runtime.control.watch
        since = 0.0 if watch is None else watch.begin()
        ask = partial(
            agent.run,
            input=input,
            context=context,
            step_number=self._state.steps + 1,
            step_history=context.recent_steps,
            constraints=self.constraints,
            log=partial(self.log, source=agent.name),
        )
        try:
            charger = None if runtime is None else getattr(runtime, "charger", None)
            if charger is None:
                return await ask()
            bill = Bill(charger, agent.name, settled_here(), why_no_call=calls_limit(till))
            if takes_charge(agent):
                ask = partial(ask, charge=bill.charge)
            answer = await billed(bill, ask, is_shared=till is not None)
            if till is not None and not bill.is_told:
                check_held(till, agent, has_answered=True)
            return answer
        finally:
            if watch is not None:
                watch.end("agent", since)

    @property
    def max_context_steps(self) -> int:
        """How many recent steps agents get to see."""
        return self._state.max_context_steps

    def become_recorded(self) -> None:
        """Let go of the run under way and of what was not recorded. For a copy, of which something is asked."""
        self._state = self._state.recorded()
        self._runtime = self._alone = self._task = None

    def rewind(self) -> None:
        """Undo what was not recorded. For whoever runs the harness, between two attempts."""
        self._state.rewind()

    def restore(self, state: StateT, step: int, load: LoadSteps, *, whole: bool = False) -> None:
        """Take up a recorded past; see `PersistentState.restore`. For whoever runs the harness, before an attempt."""
        if self._task is not None:
            raise HarnessMisuse(f"{self._where()}: it runs already: expected a harness of its own for each name")
        self._state.restore(state, step, load, whole=whole)

    @final
    async def run(self, runtime: Runtime | None = None) -> Ending:
        """Iterate `execute()` until it is exhausted, `is_complete()` is true or the harness is told to stop.

        Args:
            runtime: the surroundings. Without one the harness runs alone and its steps are kept in memory.

        Raises:
            HarnessMisuse: it runs already, or breaks a rule of the programming model.
            NotReady: a program or package that it needs is not installed.
            Exception: what `execute()` raised. Steps recorded before stay recorded.
        """
        self.check_made()
        if self._task is not None:
            raise HarnessMisuse(self._already_running())
        if runtime is None or (isinstance(runtime, LocalRuntime) and not runtime.control.attached):
            # What is known of effects outlives a run: it may have crashed.
            self._alone = runtime = runtime or LocalRuntime(type(self).__name__, after=self._alone)
            if runtime.till is not None and (why := unheld(self.asked_agents(), limits(runtime.till))):
                raise HarnessMisuse(f"{self._where()}: {why}")
            return await run_alone(self, runtime)
        if isinstance(runtime, LocalRuntime):
            runtime.mail.accepts = types_of(type(self))
        self._task, self._runtime, self.unawaited_calls = trio.lowlevel.current_task(), runtime, Calls()
        try:
            if runtime.resumed and self._state.steps and self.is_complete():
                return Ending.COMPLETED
            if runtime.governor is not None:
                # A halt holds from one attempt to the next, and from one run to the next.
                runtime.governor.check()
            ending = await drive(self._generator(), runtime.control, StepLedger(self, self._state, runtime), runtime.meter)
            if ending is Ending.EXHAUSTED:
                self._check_ended(runtime)
            return ending  # noqa: TRY300 - what `_check_ended` raises is located below
        except BaseException as error:
            rest = explained(error)
            if rest is None:
                return Ending.STOPPED
            rest = located(diagnosed(rest, self._state.state) or rest, self._where())
            if rest is error:
                raise
            raise rest from error
        finally:
            runtime.end_attempt()
            self._task = self._runtime = None

    def _check_ended(self, runtime: Runtime) -> None:
        """Raise `HarnessMisuse` if `execute()` returned with something undone that the next step would have done."""
        self.unawaited_calls.check()
        check_sent(runtime.mail.unsent)

    def _generator(self) -> AsyncGenerator[Any, None]:
        generator = cast(Any, self.execute())
        if hasattr(generator, "__anext__") and hasattr(generator, "aclose"):
            return cast(AsyncGenerator[Any, None], generator)
        if hasattr(generator, "close"):
            generator.close()
        raise HarnessMisuse(
            f"{self._where()}: execute() is not an async generator: expected `async def` with a `yield` in it, "
            f"got {_KINDS.get(type(generator).__name__, repr(generator)[:100])}; `yield (input, output)` for each step"
        )

    def check_made(self) -> None:
        """Raise `HarnessMisuse` if `BaseHarness.__init__` was never called. For whoever runs the harness."""
        if not hasattr(self, "_state"):
            raise HarnessMisuse(_not_made(self))

    def _already_running(self) -> str:
        if self._task is trio.lowlevel.current_task():
            return f"{self._where()}: run() was called from execute(), which it is running; yield the steps instead"
        return f"{self._where()}: run() was called while it runs: expected one run at a time; make a second harness"


_KINDS = {"coroutine": "a coroutine: it has no `yield`", "generator": "a plain generator: write `async def`"}
"""What an `execute()` is that is no async generator, by the type of what it returns."""
_OF_CONFIG = frozenset({"initial_state", "max_context_steps", "constraints"})


def _check_config(config: HarnessConfig[Any], name: str) -> None:
    """Refuse what only a run file, or `Orchestrator.start`, can act upon: here it would be lost without a word."""
    given = (field for field in fields(HarnessConfig) if field.name not in _OF_CONFIG)
    plain = HarnessConfig[Any](initial_state=None)
    others = [field.name for field in given if getattr(config, field.name) != getattr(plain, field.name)]
    if others:
        raise HarnessMisuse(
            f"{name}: expected a HarnessConfig with initial_state, max_context_steps and constraints alone, "
            f"got {', '.join(others)} too; give that to Orchestrator.start(), or write a run file"
        )


def _not_made(harness: object) -> str:
    cls = type(harness)
    return (
        f"{cls.__qualname__}.__init__ does not call BaseHarness.__init__: expected a harness with a state, got none; "
        "call super().__init__(initial_state) first in it"
    )
