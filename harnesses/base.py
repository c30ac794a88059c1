"""`BaseHarness`: the base class of every harness, a long-running loop written as one async generator.

Invariant: `execute()` is not resumed after a `yield` until the step is recorded; `current_step` and `step_history` contain
recorded steps only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from types import MappingProxyType, NoneType
from typing import Any, ClassVar, Generic, TypeVar, cast, final, get_args, get_origin, overload

import trio
from attrs import fields
from trio.lowlevel import Task, checkpoint, current_task

from harnesses.agent import Agent, unheld
from harnesses.agent_bill import Bill, billed, calls_limit, check_held, check_left, takes_charge
from harnesses.agent_services import AgentServices, enter_services, leave_services, run_effect
from harnesses.attachments import attachment
from harnesses.budgets.budget import NOTHING, UNLIMITED, Budget, Spend
from harnesses.budgets.spending import Spending, left, limits, settled_here
from harnesses.config import ChildOrder, HarnessConfig
from harnesses.control import Ending
from harnesses.data.values import detach, explain, fields_of
from harnesses.diagnostics.author_frames import author_line, calling_line, definition_line
from harnesses.diagnostics.error_groups import leaves
from harnesses.diagnostics.known_errors import check_trio, diagnosed
from harnesses.diagnostics.unawaited_calls import Calls, to_be_awaited
from harnesses.diagnostics.uncaught_errors import told_in_a_line
from harnesses.effects.approval import Action, Grant, action_of
from harnesses.effects.effect import Effect, EffectOutcome, Errors, Reconcile, check_key
from harnesses.errors import BudgetExhausted, HarnessError, HarnessMisuse, StateError, Unstorable, Waiting, located
from harnesses.loop import StepLedger, drive, explained, place, run_alone
from harnesses.messages.requests import ASK_TIMEOUT_S, Request, check_sent, types_of
from harnesses.runtime import LocalRuntime, Runtime
from harnesses.state import LoadSteps, PersistentState
from harnesses.step import Constraints, InputT, LoadedContext, OutputT, StateT, Step
from harnesses.timing.interval import Every, parse_moment
from harnesses.timing.schedule import Missed

_NO_CONSTRAINTS: Constraints = MappingProxyType({})
AskT = TypeVar("AskT")
AnswerT = TypeVar("AnswerT")
MessageT = TypeVar("MessageT")
OtherT = TypeVar("OtherT")


_GOES_ON = (Waiting, BudgetExhausted)
"""Errors after which an attempt goes on where it was, rather than trying again."""
_KINDS = {"coroutine": "a coroutine: it has no `yield`", "generator": "a plain generator: write `async def`"}
"""Descriptions of an `execute()` that is not an async generator, by the type of its return value."""
_OF_CONFIG = frozenset({"initial_state", "max_context_steps", "constraints"})


class _Look(Generic[AnswerT]):
    """A property that an instance attribute of the same name overrides, so that harnesses written before it keep working."""

    def __init__(self, look: Callable[[Any], AnswerT]) -> None:
        self._look = look
        self.__doc__ = look.__doc__

    def __get__(self, harness: Any, cls: type) -> AnswerT:
        return cast(AnswerT, self) if harness is None else self._look(harness)


class BaseHarness(ABC, Generic[StateT, InputT, OutputT]):
    """Base class of harnesses: subclass it and write `execute()`.

    Args:
        initial_state: the state before the first step; copied, so the caller's object is never changed. A harness resumed from
            a store starts from the stored state instead. Or a `HarnessConfig` that sets only `initial_state`,
            `max_context_steps` and `constraints`.
        max_context_steps: how many recent steps agents see.
        constraints: limits passed to the agents.
    """

    accepts: ClassVar[tuple[type, ...]] = ()
    """Message types the harness accepts; empty for any."""
    mailbox_limit: ClassVar[int | None] = None
    """Maximum number of messages waiting in the mailbox; None for no limit, since they wait on disk."""
    preferred_durability: str = "step"
    """The durability with which it is started if nothing else is said, `step` or `group`; see `Orchestrator.start`."""
    runs_as: str | None = None
    """The durable name while an orchestrator runs the harness; None otherwise."""
    unawaited_calls: Calls = Calls()
    """Calls of awaitable methods such as `send` that were not awaited; if there are any, the next `yield` is refused."""
    _runtime: Runtime | None = None
    _task: Task | None = None

    def __init__(
        self,
        initial_state: StateT | HarnessConfig[StateT],
        *,
        max_context_steps: int = 10,
        constraints: Constraints | None = None,
    ) -> None:
        with told_in_a_line():
            self._prepare(initial_state, max_context_steps, constraints)

    def _prepare(
        self, initial_state: StateT | HarnessConfig[StateT], max_context_steps: int, constraints: Constraints | None
    ) -> None:
        if isinstance(initial_state, HarnessConfig):
            config = cast(HarnessConfig[StateT], initial_state)
            _check_config(config, type(self).__name__)
            initial_state = config.initial_state
            max_context_steps = config.max_context_steps if max_context_steps == 10 else max_context_steps
            constraints = constraints or config.constraints
        name = type(self).__qualname__
        if not isinstance(cast(object, constraints), Mapping | NoneType):
            raise HarnessMisuse(f"{name}: constraints: expected a dict of names and limits, got {constraints!r:.100}")
        _check_state(type(self), initial_state)
        self.constraints: Constraints = MappingProxyType(dict(constraints)) if constraints else _NO_CONSTRAINTS
        try:
            self._state: PersistentState[StateT, InputT, OutputT] = PersistentState(initial_state, max_context_steps)
        except Unstorable as error:
            raise type(error)(
                f"{name}: its initial state cannot be stored: {explain(initial_state, 'initial_state')}"
            ) from None
        except HarnessMisuse as error:
            raise HarnessMisuse(f"{name}: {error}") from None
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
    def execute(self) -> AsyncIterator[tuple[InputT, OutputT]]:
        """Yield `(input, output)` for each step. Write it as an async generator.

        It is called anew at each start and restart, with `self.state` as of the last recorded step. Derive everything from
        `self.state`: local variables do not survive. A state change that is not followed by a `yield` is lost. A `yield`
        returns when the step is recorded.
        """

    def is_complete(self) -> bool:
        """Return whether the work is done. Called after each recorded step, so at least one step is made."""
        return False

    def conclusion(self) -> str:
        """Return in one line what came of the work, shown with the outcome of a harness that has completed or finished."""
        return ""

    def reopens(self) -> bool:
        """Return whether a completed harness has more to do. Called when it is started again."""
        return False

    @property
    def state(self) -> StateT:
        """The current state, read-only: mutating it raises `HarnessMisuse`; use `update_state`."""
        try:
            return self._state.state
        except AttributeError:
            self.check_made()
            raise

    @property
    def current_step(self) -> int:
        """The number of the last recorded step; 0 before the first. It does not change while the next step is in progress.

        With `durability="group"`, of the last accepted one; see `durable_step`.
        """
        try:
            return self._state.steps
        except AttributeError:
            self.check_made()
            raise

    @property
    def durable_step(self) -> int:
        """The number of the last step on disk: `current_step`, unless the harness runs with `durability="group"`."""
        stored: int | None = getattr(self._runtime, "durable_step", None)
        return self.current_step if stored is None else stored

    @property
    def step_history(self) -> Sequence[Step[InputT, OutputT]]:
        """The recorded steps, oldest first."""
        try:
            return self._state.step_history
        except AttributeError:
            self.check_made()
            raise

    def update_state(self, change: Callable[[StateT], StateT], *, summary: str | None = None) -> None:
        """Replace the state by `change(state)`; see `PersistentState.update_state`.

        Args:
            summary: a sentence about the change, stored with the step. One that begins with `! ` is shown to the operator.
        """
        try:
            self._state.update_state(change, summary=summary)
        except (StateError, Unstorable) as error:
            raise located(error, self._where(), calling_line()) from error
        except AttributeError:
            self.check_made()
            raise

    def load_context(self) -> LoadedContext[StateT]:
        """Return the state and at most `max_context_steps` recent steps, oldest first."""
        return self._state.load_context()

    def know(self, knowledge: Mapping[str, object]) -> None:
        """Set the `relevant_knowledge` that agents receive in their context from now on. It is data, never instructions.

        It is not part of the state: a restarted harness begins with none.
        """
        self._state.knowledge = MappingProxyType(dict(detach(knowledge)))

    def asked_agents(self) -> Sequence[Agent[Any, Any, Any]]:
        """Return the agents that the harness will call through `run_agent`, as far as they are known in advance.

        A budget limit that cannot be enforced for one of them is refused at start. Leave out agents that `execute()` chooses
        at run time, or whose usage it charges itself.
        """
        return ()

    async def run_agent(self, agent: Agent[StateT, AskT, AnswerT], input: AskT, *, key: str = "") -> AnswerT:
        """Call `agent` with this harness's context, the number of the step in progress and the constraints.

        Its usage reports are charged to the budget at once, except for amounts reserved by a surrounding `spending` block.

        Args:
            key: identity of this call within the step, for agents that use `AgentRun.once`: by it a resumed attempt finds the
                records of the call. Without it the calls of an agent in a step are numbered; give keys if several run at the
                same time, whose order can change.

        Raises:
            BudgetExhausted: a limit is reached; the agent was stopped, or not called. Do not catch it.
            HarnessMisuse: a limit cannot be enforced, because the agent does not report its usage of it.
        """
        context = self.load_context()
        runtime = self._runtime
        till = None if runtime is None else runtime.till
        counts_turns = till is not None and limits(till).turns is not None
        charges_turns = getattr(agent, "charges_turns", False) and runtime is not None
        if till is not None:
            check_held(till, agent)
            if not charges_turns:
                # A turn that is taken up again may need no more of what is used up.
                check_left(till, agent)
        if counts_turns and not charges_turns:
            # Charged before the call, so that a waiting agent never holds a reserved turn.
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
        services = None if runtime is None else self._services_for(agent.name, key, runtime)
        if services is not None:
            services.owes_turn = counts_turns and charges_turns
        token = enter_services(services)
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
            leave_services(token)
            if runtime is not None and services is not None:
                runtime.effects.end_call(services.scope)
            if watch is not None:
                watch.end("agent", since)

    def _services_for(self, agent: str, key: str, runtime: Runtime) -> AgentServices:
        """Return the services for the next call of an agent in the step in progress."""
        scope = runtime.effects.begin_call(agent, key)
        # An older runtime may have neither.
        tell, spans = getattr(runtime, "tell", None), getattr(runtime, "spans", None)
        return AgentServices(agent, scope, runtime, where=self._where, tell=tell, spans=spans)

    @property
    def max_context_steps(self) -> int:
        """How many recent steps agents see."""
        return self._state.max_context_steps

    def become_recorded(self) -> None:
        """Detach from the current run and drop unrecorded changes. For a copy that is only inspected."""
        self._state = self._state.recorded()
        self._runtime = self._alone = self._task = None

    def rewind(self) -> None:
        """Undo unrecorded changes. Called by the runner between two attempts."""
        self._state.rewind()

    def restore(self, state: StateT, step: int, load: LoadSteps, *, whole: bool = False) -> None:
        """Restore recorded state and history; see `PersistentState.restore`. Called by the runner before an attempt."""
        if self._task is not None:
            raise HarnessMisuse(f"{self._where()}: it runs already: expected a harness of its own for each name")
        self._state.restore(state, step, load, whole=whole)

    @final
    async def run(self, runtime: Runtime | None = None) -> Ending:
        """Iterate `execute()` until it returns, `is_complete()` is true or the harness is stopped.

        Args:
            runtime: the services the harness uses. Without one the harness runs alone and its steps are kept in memory.

        Raises:
            HarnessMisuse: the harness is already running, or breaks a rule of the programming model.
            NotReady: a program or package it needs is not installed.
            Exception: raised by `execute()`. Steps recorded before it stay recorded.
        """
        with told_in_a_line():
            self.check_made()
            check_trio(f"{type(self).__name__}.run()", f"trio.run({type(self).__name__}(…).run)")
        if self._task is not None:
            raise HarnessMisuse(self._already_running())
        if runtime is None or (isinstance(runtime, LocalRuntime) and not runtime.control.attached):
            # Effect records outlive a run, which may have crashed.
            self._alone = runtime = runtime or LocalRuntime(type(self).__name__, after=self._alone)
            if runtime.till is not None and (why := unheld(self.asked_agents(), limits(runtime.till))):
                raise HarnessMisuse(f"{self._where()}: {why}")
            return await run_alone(self, runtime)
        if isinstance(runtime, LocalRuntime):
            runtime.mail.accepts = types_of(type(self))
        self._task, self._runtime, self.unawaited_calls = trio.lowlevel.current_task(), runtime, Calls()
        enter_services(None)  # An agent's tool may have started this harness.
        try:
            if runtime.resumed and self._state.steps and self.is_complete():
                return Ending.COMPLETED
            if runtime.governor is not None:
                # A block imposed by the governor persists across attempts and runs.
                runtime.governor.check()
            ending = await drive(self._generator(), runtime.control, StepLedger(self, self._state, runtime), runtime.meter)
            if ending is Ending.FINISHED:
                self._check_ended(runtime)
            return ending  # noqa: TRY300 - what `_check_ended` raises is located below
        except BaseException as error:
            rest = explained(error)
            if rest is None:
                return Ending.STOPPED
            if runtime.effects.given_up and not any(isinstance(leaf, _GOES_ON) for leaf in leaves(rest)):
                runtime.effects.fail_attempt(runtime)
            named = located(diagnosed(rest, self._state.state) or rest, self._where(), author_line(rest))
            if named is error:
                raise
            raise named from error
        finally:
            runtime.end_attempt()
            self._task = self._runtime = None

    def _check_ended(self, runtime: Runtime) -> None:
        """Raise `HarnessMisuse` if `execute()` returned with messages or calls pending for a next step."""
        self.unawaited_calls.check()
        check_sent(runtime.unsent)

    def _generator(self) -> AsyncGenerator[Any, None]:
        generator = cast(Any, self.execute())
        if hasattr(generator, "__anext__") and hasattr(generator, "aclose"):
            return cast(AsyncGenerator[Any, None], generator)
        if hasattr(generator, "close"):
            generator.close()
        text = (
            "execute() is not an async generator: expected `async def` with a `yield` in it, "
            f"got {_KINDS.get(type(generator).__name__, repr(generator)[:100])}; `yield (input, output)` for each step"
        )
        raise located(HarnessMisuse(text), self._where(), definition_line(type(self).execute))

    def check_made(self) -> None:
        """Raise `HarnessMisuse` if `BaseHarness.__init__` was never called. For the code that runs the harness."""
        if not hasattr(self, "_state"):
            with told_in_a_line():
                raise HarnessMisuse(_not_made(self)) from None

    def _already_running(self) -> str:
        if self._task is trio.lowlevel.current_task():
            return f"{self._where()}: run() was called from execute(), which it is running; yield the steps instead"
        return f"{self._where()}: run() was called while it runs: expected one run at a time; make a second harness"

    def log(self, line: str, *, source: str = "") -> None:
        """Record a line of output while the step is in progress, and show it in the log. Does not wait.

        Args:
            source: what wrote the line, such as an agent's name. At most 10,000 lines per step are recorded, then only their
                number.

        Raises:
            HarnessMisuse: the line or the source is not text.
        """
        if not isinstance(line, str) or not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            wrong = source if isinstance(line, str) else line
            raise HarnessMisuse(f"log: expected text, got {wrong!r:.100}; use str() or json.dumps(), or `attach` data")
        if self._runtime is not None:
            self._runtime.log(line, source)

    def attach(self, kind: str, value: object) -> None:
        """Record a value beside the step in progress, in the same commit. It is lost if no `yield` follows.

        Args:
            kind: `evidence`, `task` or `guardrail`.
            value: a dict or attrs instance that JSON can represent.
        """
        self._surroundings("attach").attach(attachment(kind, value))

    def start_child(
        self,
        factory: Callable[..., object],
        *args: object,
        name: str,
        arguments: Mapping[str, object] | None = None,
        restart: str = "transient",
        grace_s: float | None = None,
        step_timeout_s: float | None = None,
        deadline_s: float | None = None,
        budget: Budget | None = None,
    ) -> str:
        """Start another harness together with the step in progress; return its name. Nothing starts if no `yield` follows.

            self.start_child(Hedger, "EURUSD", name=f"{self.name}.hedger")

        The child runs beside this harness, under the same supervisor and approval rules. Its spending is also charged to the
        budgets of this harness. It keeps running when this harness ends, and is resumed together with it at the next start of
        the program, until it is completed or its `execute()` has returned. A second call with the same name and the same
        arguments does nothing.

        Args:
            factory: a class, or a function annotated to return a harness, importable in the next run of the program.
            args: positional arguments of the factory: plain data, or values of the types that its parameters are annotated
                with. They are stored in clear text, so pass the name of a secret and have the child look it up.
            name: the durable identity, `[A-Za-z0-9][A-Za-z0-9._-]*`.
            arguments: keyword arguments of the factory.
            restart: `permanent`, `transient` or `temporary`.
            deadline_s: seconds after its start in each run of the program by which the child must have ended.
            budget: the child's own budget.

        Raises:
            HarnessMisuse: an argument is invalid.
        """
        order = ChildOrder(
            factory=factory,
            name=name,
            args=args,
            arguments=arguments or {},
            restart=restart,
            grace_s=grace_s,
            step_timeout_s=step_timeout_s,
            deadline_s=deadline_s,
            budget=budget,
        )
        return self._surroundings("start_child").start_child(order)

    def spending(
        self,
        *,
        tokens: int = 0,
        money: Decimal = NOTHING.money,
        tool_calls: int = 0,
        turns: int = 0,
        on_cutoff: Spend | None = None,
    ) -> Spending:
        """Reserve budget, as an upper bound, for the duration of an `async with` block.

            async with self.spending(tokens=2000, money=Decimal("0.05")) as spend:
                answer = await ask_a_model(max_tokens=2000)
                spend.settle(tokens=answer.tokens, money=answer.price)

        The reservation is on disk before the block is entered. Whatever is not settled in the block is charged in full, also
        if the program crashes in it. What is settled beyond the reservation is charged too. Entering waits for other
        harnesses' reservations that may be given back, so keep the block short and do not wait for another harness in it.

        Args:
            on_cutoff: what is charged if the block ends without `settle`, or the program dies in it, for a spender who knows
                what a call that is cut off costs at most; None for the whole reservation.

        Raises, on entering:
            BudgetExhausted: the budget is too small. Do not catch it: the outcome is then "budget spent".
        """
        most = Spend(turns=turns, tool_calls=tool_calls, tokens=tokens, money=money)
        runtime = self._surroundings("spending")
        return Spending(runtime.till, most, runtime.control.watch, on_cutoff=on_cutoff)

    @_Look
    def budget(self) -> Budget:
        """What is left to spend now, in the harness's own budget and in all shared ones."""
        till = self._surroundings("budget").till
        return UNLIMITED if till is None else left(till)

    @to_be_awaited
    async def sleep(self, seconds: float) -> None:
        """Sleep on Trio's clock. Unlike `trio.sleep`, it ends at once and cleanly when the harness is stopped."""
        await self._surroundings("sleep").sleep(seconds)

    @to_be_awaited
    async def sleep_until(self, when: datetime | float) -> None:
        """Sleep until a wall-clock time, following clock adjustments; return at once if it has passed.

        Args:
            when: an aware datetime, or seconds since 1970.
        """
        runtime = self._surroundings("sleep_until")
        await runtime.clock.sleep_until(parse_moment(when), runtime.sleep)

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC. With Trio's virtual clock it follows that clock."""
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
        """Return an async iterator of ticks, numbered from 0, that continues after a crash or restart where it left off.

        A tick is consumed by the step that follows it; after a crash before that, it is delivered again if its period has not
        yet passed.

        Args:
            period_s: seconds from tick to tick, without drift. Whole days keep the time of day in the anchor's time zone.
            anchor: when tick 0 is due, an aware datetime: ticks then follow the wall clock. Without it the first tick comes at
                once and the others follow Trio's clock.
            jitter_s: upper bound of the random delay of each tick, in seconds; the delays are the same after a restart.
            missed: what to do with ticks whose time has passed: `skip` drops them, `coalesce` delivers one for all of them at
                once, `catch_up` delivers each of them at once.
            name: identity of the ticker across restarts; required if two have the same period and anchor.
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

    @overload
    async def receive(self) -> Any: ...
    @overload
    async def receive(self, kind: type[MessageT], /) -> MessageT: ...
    @overload
    async def receive(self, kind: type[MessageT], other: type[OtherT], /) -> MessageT | OtherT: ...
    @overload
    async def receive(self, *kinds: type[Any]) -> Any: ...
    async def receive(self, *kinds: type[Any]) -> Any:
        """Take the oldest message from this harness's mailbox, waiting for one.

        The message is consumed by the next `yield`; after a crash before that it is delivered again. A message whose sender
        waits for a reply is a `Request`.

        Args:
            kinds: `Request`, or types listed in `accepts`: take the oldest message of one of these; the others stay in order.

        Raises:
            HarnessMisuse: the mailbox is empty while `execute()` has unsent messages that go out with the next `yield`, so no
                answer could arrive. A task started by the harness may wait.
        """
        mail = self._surroundings("receive").mail
        return await mail.receive(kinds, in_execute=current_task() is self._task)

    @overload
    def receive_nowait(self) -> Any: ...
    @overload
    def receive_nowait(self, kind: type[MessageT], /) -> MessageT: ...
    @overload
    def receive_nowait(self, kind: type[MessageT], other: type[OtherT], /) -> MessageT | OtherT: ...
    @overload
    def receive_nowait(self, *kinds: type[Any]) -> Any: ...
    def receive_nowait(self, *kinds: type[Any]) -> Any:
        """Take the oldest message from this harness's mailbox without waiting; see `receive`.

        Raises:
            trio.WouldBlock: the mailbox is empty.
        """
        return self._surroundings("receive_nowait").mail.receive_nowait(kinds)

    @to_be_awaited
    async def send(self, to: str, message: object) -> None:
        """Send a message, any value that JSON can represent, to the harness called `to`, with the next `yield`.

        The message is sent if and only if the step is recorded. It is validated immediately.

        Raises:
            UnknownHarness: no harness has that name; the error lists the known ones.
            MailboxFull: the recipient's mailbox is full.
            HarnessMisuse: the recipient does not accept messages of that type.
            Unstorable: JSON cannot represent it.
        """
        await self._surroundings("send").mail.send(to, message)

    @to_be_awaited
    async def ask(self, to: str, message: object, *, timeout_s: float = ASK_TIMEOUT_S, key: str = "") -> Any:
        """Send a request to the harness called `to` and return its reply, as plain data.

        The request is on disk before the wait starts; the reply is consumed by the next `yield`. After a crash before that,
        the same question in the same step is the same request: it is not handled again and has the same reply. Two harnesses
        that ask each other at the same time both wait until their timeouts.

        Args:
            timeout_s: seconds to wait. A later reply is dropped.
            key: identity of the question within the step; by default the recipient and the message.

        Raises:
            AskTimeout: no reply arrived in time.
            UnknownHarness, MailboxFull, HarnessMisuse, Unstorable: see `send`.
        """
        return await self._surroundings("ask").mail.ask(to, message, timeout_s, key)

    @to_be_awaited
    async def reply(self, request: Request, answer: object) -> None:
        """Reply to a request with the next `yield`; the reply is sent if and only if the step is recorded.

        After a crash before that, the request is delivered again. If a request gets several replies, the first recorded one
        counts.
        """
        self._surroundings("reply").mail.reply(request, answer)
        await checkpoint()

    @overload
    async def once(
        self,
        key: str,
        function: Callable[..., Awaitable[AnswerT]],
        *args: Any,
        reconcile: Reconcile | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
        approval: Action | str | None = None,
        errors: Errors = "raise",
        dangerous: bool = False,
        in_memory: bool = False,
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
        approval: Action | str | None = None,
        errors: Errors = "raise",
        dangerous: bool = False,
        in_memory: bool = False,
    ) -> AnswerT: ...

    @to_be_awaited
    async def once(
        self,
        key: str,
        function: Callable[..., Any],
        *args: Any,
        reconcile: Reconcile | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
        approval: Action | str | None = None,
        errors: Errors = "raise",
        dangerous: bool = False,
        in_memory: bool = False,
    ) -> Any:
        """Run an effect, an act on the world that must not happen twice, and return its result.

        The intent is on disk before `function(*args)` is called, and the outcome afterwards, both as part of the step in
        progress. Called again with this key in the same step, also after a crash, it returns the recorded result.

        Args:
            key: identity of the effect within this step.
            function: performs the effect. It raises `Refused` if the effect has certainly not happened; after any other error,
                a timeout or a cancellation the outcome is unknown. The result is decoded to the annotated return type.
            args: stored with the intent; when the effect is taken up again they must be the same.
            reconcile: called with the key and the arguments to find out the outcome of an effect whose outcome is unknown;
                returns `Confirmed(result)`, `NotDone()` or `Undecided(reason)`, or raises `Refused`.
            idempotent: whether repeating the effect is harmless; if so, an effect of unknown outcome is run again.
            timeout_s: seconds after which the call is cancelled; its outcome is then unknown.
            errors: with `keep`, an error or a timeout is the recorded result of the effect: `EffectFailed` is raised, now and
                each time the effect is asked for again. A call that is cut off, without `reconcile`, is interrupted:
                `EffectInterrupted` is raised then. Neither blocks the harness.
            dangerous: whether a call that is cut off blocks the harness even with `errors="keep"`.
            in_memory: whether the effect changes only what ends with the program, such as a simulated venue. Nothing is then
                waited for: intent and outcome are recorded in the commit of the step, or when the attempt ends before it.
            approval: what needs human approval first: an `Action`, or a category for these arguments. All of the harness's
                clocks (deadline, step timeout) stop while an approval is pending.

        Raises:
            Refused: the effect was refused, now or in an earlier attempt.
            EffectFailed, EffectInterrupted: with `errors="keep"`, what became of it, now or in an earlier attempt.
            ApprovalDenied: approval was denied; a subclass of `Refused`.
            ApprovalExpired: no answer came in time. Do not catch it: the harness is then blocked.
            UnknownOutcome: the outcome cannot be found out. Do not catch it: the harness is then blocked until a person
                decides.
            Latched: the kill switch is on.
            Exception: raised by the function, if the effect has not happened or is idempotent.
        """
        runtime = self._surroundings("once")
        how: dict[str, Any] = {"reconcile": reconcile, "idempotent": idempotent, "timeout_s": timeout_s, "approval": approval}
        how |= {"errors": errors, "dangerous": dangerous, "in_memory": in_memory}
        return await run_effect(runtime, self._where, key, function, args, **how)

    @to_be_awaited
    async def approval(self, key: str, action: Action | str) -> Grant:
        """Wait for human approval of an action that is not an effect, such as accepting a result.

        Called again with this key in the same step, also after a crash, it returns the same approval. See `once`.

        Raises:
            ApprovalDenied: a person denied it.
            ApprovalExpired: no answer came in time. Do not catch it: the harness is then blocked.
        """
        runtime = self._surroundings("approval")
        check_key(key)
        try:
            return await runtime.approve(key, action_of(key, action))
        except HarnessError as error:
            raise located(error, self._where()) from error.__cause__

    @to_be_awaited
    async def settle(self, key: str, reconcile: Reconcile) -> EffectOutcome:
        """Find out the outcome of an effect of the step in progress, without running it, and return it.

        `reconcile` gets the arguments as stored, as plain data: a `Decimal` is text.

        Raises:
            UnknownOutcome: `reconcile` cannot tell either.
        """
        runtime = self._surroundings("settle")
        try:
            return await runtime.effects.settle(runtime, key, reconcile)
        except HarnessError as error:
            raise located(error, self._where()) from error.__cause__

    @to_be_awaited
    async def wait_stored(self) -> None:
        """Wait until every step made so far is on disk. For an act on the world that is not an effect, with group durability.

        Raises:
            OwnershipLost, StoreLost: a step is not recorded.
        """
        wait = getattr(self._surroundings("wait_stored"), "wait_stored", checkpoint)
        await wait()

    @_Look
    def effects(self) -> tuple[Effect, ...]:
        """Recorded effects of the step in progress, from this attempt and from those that crashed."""
        return self._surroundings("effects").effects.known()

    @_Look
    def stopping(self) -> bool:
        """Whether the harness is being stopped: the step in progress is the last one."""
        return self._surroundings("stopping").control.stopping

    @_Look
    def name(self) -> str:
        """The durable name while the harness runs; otherwise the name of its class."""
        return self._runs_as()

    def _surroundings(self, verb: str) -> Runtime:
        if self._runtime is None:
            with told_in_a_line():
                raise HarnessMisuse(f"{verb}: {type(self).__name__} is not running; call it from execute()")
        return self._runtime

    def _where(self) -> str:
        return place(self._runs_as(), self.current_step)

    def _runs_as(self) -> str:
        return self._runtime.name if self._runtime is not None else self.runs_as or type(self).__name__


def _check_config(config: HarnessConfig[Any], name: str) -> None:
    """Refuse config fields that only a run file or `Orchestrator.start` can apply: here they would be silently ignored."""
    given = (field for field in fields(HarnessConfig) if field.name not in _OF_CONFIG)
    plain = HarnessConfig[Any](initial_state=None)
    others = [field.name for field in given if getattr(config, field.name) != getattr(plain, field.name)]
    if others:
        raise HarnessMisuse(
            f"{name}: expected a HarnessConfig with initial_state, max_context_steps and constraints alone, "
            f"got {', '.join(others)} too; give that to Orchestrator.start(), or write a run file"
        )


@cache
def _declared_state(cls: type) -> type | None:
    """Return the class that a harness declares its state to be, in `BaseHarness[…]`; None unless that has fields."""
    for original in (one for base in cls.__mro__ for one in getattr(base, "__orig_bases__", ())):
        arguments = get_args(original)
        if get_origin(original) is BaseHarness and len(arguments) == 3:
            state = arguments[0]
            return state if isinstance(state, type) and fields_of(state) is not None else None
    return None


def _check_state(cls: type, state: object) -> None:
    """Refuse an initial state of another type than the harness declares."""
    if isinstance(state, type):
        raise HarnessMisuse(
            f"{cls.__qualname__}: initial_state: expected a state, got the class {state.__qualname__}; "
            f"pass {state.__qualname__}(…), an object of it"
        )
    declared = _declared_state(cls)
    if declared is not None and not isinstance(state, declared):
        raise HarnessMisuse(
            f"{cls.__qualname__}: initial_state: expected {declared.__qualname__}, as BaseHarness[…] says, "
            f"got {state!r:.100}; pass {declared.__qualname__}(…)"
        )


def _not_made(harness: object) -> str:
    cls = type(harness)
    line = definition_line(cls.__init__)
    return (
        f"{cls.__qualname__}.__init__{f' ({line})' if line else ''} has not called BaseHarness.__init__: "
        "expected a harness with a state, got none; call super().__init__(initial_state) first in it"
    )
