"""`BaseHarness`: a long-running loop that its author writes as one async generator.

The law: `execute()` is not resumed after a `yield` until the step is recorded; `current_step` and `step_history` show
recorded steps only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, cast, final, overload

import trio
from attrs import fields
from trio.lowlevel import Task, checkpoint, current_task

from harnesses.agent import Agent, unheld
from harnesses.agent_bill import Bill, billed, calls_limit, check_held, check_left, takes_charge
from harnesses.attachments import attachment
from harnesses.budgets.budget import NOTHING, UNLIMITED, Budget, Spend
from harnesses.budgets.spending import Spending, left, limits, settled_here
from harnesses.config import ChildOrder, HarnessConfig
from harnesses.control import Ending
from harnesses.data.values import detach
from harnesses.diagnostics.known_errors import diagnosed
from harnesses.diagnostics.unawaited_calls import Calls, to_be_awaited
from harnesses.effects.approval import Action, Grant, action_of
from harnesses.effects.effect import Effect, EffectOutcome, Reconcile, check_key
from harnesses.errors import HarnessError, HarnessMisuse, StateError, Unstorable, located
from harnesses.loop import StepLedger, drive, explained, place, run_alone
from harnesses.messages.requests import ASK_TIMEOUT_S, Request, check_sent, types_of
from harnesses.runtime import LocalRuntime, Runtime
from harnesses.state import LoadSteps, PersistentState
from harnesses.step import Constraints, InputT, LoadedContext, OutputT, StateT, Step, StepYield
from harnesses.timing.interval import Every, parse_moment
from harnesses.timing.schedule import Missed

_NO_CONSTRAINTS: Constraints = MappingProxyType({})
AskT = TypeVar("AskT")
AnswerT = TypeVar("AnswerT")


_KINDS = {"coroutine": "a coroutine: it has no `yield`", "generator": "a plain generator: write `async def`"}
"""What an `execute()` is that is no async generator, by the type of what it returns."""
_OF_CONFIG = frozenset({"initial_state", "max_context_steps", "constraints"})


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
            is resumed from a store starts from the state stored there instead. Or a `HarnessConfig`: then `initial_state`,
            `max_context_steps` and `constraints` are taken from it, and it may set nothing else.
        max_context_steps: how many recent steps agents get to see.
        constraints: limits handed to the agents.
    """

    accepts: ClassVar[tuple[type, ...]] = ()
    """The types of messages that it takes; any value if none is named."""
    mailbox_limit: ClassVar[int | None] = None
    """How many messages may wait for it; any number if None, for they wait on disk."""
    runs_as: str | None = None
    """The name it runs under, while somebody else than its author has charge of it."""
    unawaited_calls: Calls = Calls()
    """The calls of its own methods, such as `send`, that were not awaited: the next `yield` is refused."""
    _runtime: Runtime | None = None
    _task: Task | None = None

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
            if ending is Ending.FINISHED:
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

    def log(self, line: str, *, source: str = "") -> None:
        """Have a line of output recorded, and shown in the log, while the step is being made. Does not wait.

        Args:
            source: whose it is. Of one step 10,000 lines are recorded; of the rest, how many there were.

        Raises:
            HarnessMisuse: what is given is no text.
        """
        if not isinstance(line, str) or not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            wrong = source if isinstance(line, str) else line
            raise HarnessMisuse(f"log: expected text, got {wrong!r:.100}; use str() or json.dumps(), or `attach` data")
        if self._runtime is not None:
            self._runtime.log(line, source)

    def attach(self, kind: str, value: object) -> None:
        """Have something recorded beside the step being made, in one commit with it. Without a `yield` it did not happen.

        Args:
            kind: `evidence`, `task` or `guardrail`.
            value: an object that JSON can carry: a dict or an attrs class.
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
        """Start another harness with the step being made; return its name. Without a `yield` it did not happen.

            self.start_child(Hedger, "EURUSD", name=f"{self.name}.hedger")

        It runs beside this one, under the same supervisor and approval rules, charged to the budgets of this one too, and goes
        on when this one ends. When the program is started again, it is started again with this one, until it is completed or
        its `execute()` has returned. Called again with the same name and the same terms it changes nothing.

        Args:
            factory: a class, or a function annotated to return a harness, that another start of the program can import.
            args: what it is called with: plain data, or values of the types that its parameters are annotated with.
                They are stored as they are, secrets too: pass the name of one, and have the child look it up.
            name: the durable identity, `[A-Za-z0-9][A-Za-z0-9._-]*`.
            arguments: what it is called with by name.
            restart: `permanent`, `transient` or `temporary`.
            deadline_s: seconds by which it must have ended, from each time that it is started.
            budget: what it may spend by itself.

        Raises:
            HarnessMisuse: it cannot be started so.
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
        runtime = self._surroundings("spending")
        return Spending(runtime.till, most, runtime.control.watch)

    @_Look
    def budget(self) -> Budget:
        """What is left to spend now: in its own budget and in all that it shares."""
        till = self._surroundings("budget").till
        return UNLIMITED if till is None else left(till)

    @to_be_awaited
    async def sleep(self, seconds: float) -> None:
        """Sleep on Trio's clock. Unlike `trio.sleep` it ends at once, cleanly, when the harness is told to stop."""
        await self._surroundings("sleep").sleep(seconds)

    @to_be_awaited
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

    async def receive(self, *kinds: type) -> Any:
        """Take the oldest message from this harness's mailbox, waiting for one.

        The message counts as consumed with the next `yield`; after a crash before that it is delivered again. One whose sender
        waits for a reply is a `Request`.

        Args:
            kinds: `Request`, or types of `accepts`: the oldest message of one of these is taken, the others stay in order.

        Raises:
            HarnessMisuse: there is none, and `execute()` has sent something that goes with the next `yield`: nobody can answer
                it before. A task that it has started may wait.
        """
        mail = self._surroundings("receive").mail
        return await mail.receive(kinds, in_execute=current_task() is self._task)

    def receive_nowait(self, *kinds: type) -> Any:
        """Take the oldest message from this harness's mailbox; see `receive`.

        Raises:
            trio.WouldBlock: there is none.
        """
        return self._surroundings("receive_nowait").mail.receive_nowait(kinds)

    @to_be_awaited
    async def send(self, to: str, message: object) -> None:
        """Put a message, any value that JSON can carry, in the mailbox of the harness called `to`, with the next `yield`.

        The message is sent exactly if the step is recorded. It is checked at once.

        Raises:
            UnknownHarness: there is no harness of that name; the error names those that there are.
            MailboxFull: the mailbox has a limit, and no room.
            HarnessMisuse: the other harness does not accept messages of that type.
            Unstorable: JSON cannot carry it.
        """
        await self._surroundings("send").mail.send(to, message)

    @to_be_awaited
    async def ask(self, to: str, message: object, *, timeout_s: float = ASK_TIMEOUT_S, key: str = "") -> Any:
        """Return what the harness called `to` replies to a message, as plain data.

        The request is on disk before it is waited for; the reply is consumed with the next `yield`. After a crash before that,
        the same question in the same step is the same request: it is not handled again, and has the same reply. Two harnesses
        that ask each other at once wait until their time is over.

        Args:
            timeout_s: how long to wait. A reply that comes later is dropped.
            key: makes questions of one step the same that differ; without it, the recipient and the message count.

        Raises:
            AskTimeout: there is no reply in time.
            UnknownHarness, MailboxFull, HarnessMisuse, Unstorable: see `send`.
        """
        return await self._surroundings("ask").mail.ask(to, message, timeout_s, key)

    @to_be_awaited
    async def reply(self, request: Request, answer: object) -> None:
        """Reply to a request with the next `yield`: exactly if the step is recorded.

        A crash before that delivers the request again. Of several replies to one request the first recorded one counts.
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
            approval: what a person has to approve first: an `Action`, or a category for these very arguments. While one is
                waited for, no clock of the harness runs: neither its deadline nor that of its step.

        Raises:
            Refused: the world has said no, now or before.
            ApprovalDenied: a person has; it is a `Refused`.
            ApprovalExpired: nobody has answered in time. Let it pass: the harness is then blocked.
            UnknownOutcome: nobody knows what became of it. Let it pass: the harness is then blocked until a person decides.
            Latched: the kill switch is on.
            Exception: what the function raised, if it has not happened or is idempotent.
        """
        runtime = self._surroundings("once")
        needed = approval
        if needed is None and runtime.rule is not None:
            needed = runtime.rule(key, args)
        how: dict[str, Any] = {"reconcile": reconcile, "idempotent": idempotent, "timeout_s": timeout_s}
        if needed is not None:
            how["approval"] = action_of(key, needed)
        since = runtime.control.watch.begin()
        try:
            return await runtime.effects.once(runtime, key, function, args, **how)
        except HarnessError as error:
            named = located(error, self._where())
            if named is error:
                raise
            raise named from error.__cause__
        finally:
            runtime.control.watch.end("effects", since)

    @to_be_awaited
    async def approval(self, key: str, action: Action | str) -> Grant:
        """Return when a person has approved an action that is no effect: that work may go on, that a result is good.

        Asked again with this key in the same step, also after a crash, it returns the same approval. See `once`.

        Raises:
            ApprovalDenied: a person has said no.
            ApprovalExpired: nobody has answered in time. Let it pass: the harness is then blocked.
        """
        runtime = self._surroundings("approval")
        check_key(key)
        try:
            return await runtime.approve(key, action_of(key, action))
        except HarnessError as error:
            raise located(error, self._where()) from error.__cause__

    @to_be_awaited
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
    def stopping(self) -> bool:
        """Whether it is to stop: after the step being made there is no other."""
        return self._surroundings("stopping").control.stopping

    @_Look
    def name(self) -> str:
        """The durable name it runs under; the name of its class while it does not run."""
        return self._runs_as()

    def _surroundings(self, verb: str) -> Runtime:
        if self._runtime is None:
            raise HarnessMisuse(f"{verb}: {type(self).__name__} is not running; call it from execute()")
        return self._runtime

    def _where(self) -> str:
        return place(self._runs_as(), self.current_step)

    def _runs_as(self) -> str:
        return self._runtime.name if self._runtime is not None else self.runs_as or type(self).__name__


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
