"""G5: a stop is never worse than a kill: a turn that is stopped at any moment goes on after its last finished call."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from inspect import iscoroutine
from typing import Any

import trio
from attrs import define, field

from harnesses import Action, Agent, AgentRun, BaseHarness
from harnesses.agents import ModelAgent, ToolEffect, tool
from harnesses.agents.model.messages import ModelRequest, ModelResponse, Role
from harnesses.agents.tools.tool_policy import ToolPolicy
from harnesses.errors import BudgetExhausted, NotReady, Waiting
from harnesses.features import Feature, FeatureHarness, NoHealthCheck, TurnResult, Verdict
from orchestrator import Handle, MemoryStore, Orchestrator
from tests.harnesses.agents.chat.scripted_model import ScriptedProvider, calls, says

ANSWERS = (
    says("", calls("act", '{"what": "x"}', "c1"), calls("act", '{"what": "y"}', "c2")),
    says("", calls("pay", '{"amount": 5}', "c3")),
    says("done"),
)


@define
class World:
    """What happens outside, over all lives; `end` is called at one moment of the turn."""

    at: int = 0
    passed: int = 0
    acts: Counter[str] = field(factory=Counter[str])
    sent: Counter[int] = field(factory=Counter[int])
    """Requests by their round."""
    answered: Counter[int] = field(factory=Counter[int])
    asked: set[str] = field(factory=set[str])
    """Approvals that were asked for."""
    given: set[str] = field(factory=set[str])
    end: Callable[[], object] = lambda: None

    async def pass_by(self) -> None:
        self.passed += 1
        if self.passed == self.at and iscoroutine(ending := self.end()):
            await ending
        await trio.lowlevel.checkpoint()

    def harness(self) -> FeatureHarness:
        @tool(effect=ToolEffect.ACTS)
        async def act(what: str) -> str:
            """Act."""
            await self.pass_by()
            self.acts[what] += 1
            await self.pass_by()
            return f"did {what}"

        @tool(effect=ToolEffect.ACTS)
        async def pay(amount: int) -> str:
            """Pay."""
            self.acts["pay"] += 1
            await self.pass_by()
            return f"paid {amount}"

        agent = ModelAgent(WorldProvider((), world=self).client(), tools=[act, pay], policy=ToolPolicy(ask=["pay"]))
        wanted = [Feature("f", "d", steps="s")]
        return FeatureHarness(agent, Passing(), objective="o", features=wanted, health_check=NoHealthCheck())


class Passing:
    async def validate(self, feature: Feature, work: Any) -> Verdict:
        await trio.lowlevel.checkpoint()
        return Verdict(passed=True, evidence="fine")


@define
class WorldProvider(ScriptedProvider):
    world: World = field(factory=World, kw_only=True)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        number = sum(message.role is Role.ASSISTANT for message in request.messages)
        self.world.sent[number] += 1
        await self.world.pass_by()
        self.world.answered[number] += 1
        return ANSWERS[number]


class Failing(BaseHarness[int, str, str]):
    """Fails once when it is told to."""

    def __init__(self, told: trio.Event) -> None:
        super().__init__(0)
        self.told, self.failed = told, False

    async def execute(self) -> AsyncIterator[Any]:
        if not self.failed:
            await self.told.wait()
            self.failed = True
            raise ValueError("told to fail")
        yield "done", "done"


async def live(world: World, store: MemoryStore, how: str) -> str:
    """Let a program live until its end, or until it is ended at a moment of the turn; return how the harness ended."""
    ended, again, told = "cancelled", list[Any](), trio.Event()
    async with trio.open_nursery() as nursery, Orchestrator(store, handle_signals=False) as orchestrator:
        pair = orchestrator.supervisor("pair", strategy="one_for_all")
        handle = orchestrator.start(world.harness(), name="f", step_timeout_s=60, supervisor=pair)
        if how == "sibling":
            orchestrator.start(Failing(told), name="sibling", supervisor=pair)
        world.end = ending(how, orchestrator, handle, nursery, again, told)
        nursery.start_soon(answer, world, store, orchestrator)
        ended = str(await handle.wait())
        while again:
            ended = str(await (await again.pop()).wait())
        nursery.cancel_scope.cancel()
    return ended


def ending(
    how: str, orchestrator: Orchestrator, handle: Handle, nursery: trio.Nursery, again: list[Any], told: trio.Event
) -> Callable[[], Any]:
    """Return what ends a program, its harness or an attempt of it in this way."""

    def pause_and_stop() -> None:
        handle.pause()
        handle.stop()

    def fail(error: Exception) -> None:
        raise error

    async def fail_sibling() -> None:
        told.set()
        await trio.sleep(50)

    async def take_long() -> None:
        await trio.sleep(1_000)

    ends: dict[str, Callable[[], Any]] = {
        "stop": orchestrator.stop,
        "stop one": handle.stop,
        "pause, stop": pause_and_stop,
        "restart": lambda: again.append(orchestrator.restart("f")),
        "cancel": nursery.cancel_scope.cancel,
        "waiting": lambda: fail(Waiting("a person decides")),
        "spent": lambda: fail(BudgetExhausted("spent")),
        "too slow": take_long,
        "sibling": fail_sibling,
    }
    return ends[how]


async def answer(world: World, store: MemoryStore, orchestrator: Orchestrator) -> None:
    """Approve what is asked for, a moment later."""
    while True:
        for record in store.approvals():
            if record.id not in world.given:
                world.asked.add(record.id)
                with suppress(Waiting, BudgetExhausted), trio.move_on_after(1):
                    await world.pass_by()
                await trio.sleep(1)
                world.given.add(record.id)
                await orchestrator.approve(record.id, by="ann")
        await trio.sleep(1)


WAYS = ("stop", "stop one", "pause, stop", "restart", "cancel", "waiting", "spent", "too slow", "sibling")


async def test_a_stopped_turn_goes_on_after_its_last_finished_call(autojump_clock: object) -> None:
    for how in WAYS:
        for at in range(1, 10):
            world, store = World(at), MemoryStore()
            ended = [await live(world, store, how)]
            while ended[-1] != "completed" and len(ended) < 4:
                ended.append(await live(world, store, how))
            where = f"{how} at {at}: {ended}"
            assert world.passed >= at, where
            assert ended[-1] == "completed", where
            check(world, where)
            assert [step.output["status"] for step in store.steps("f")] == ["done", "passed"], where


def check(world: World, where: str) -> None:
    assert max(world.acts.values()) == 1, f"{where}: {world.acts}"
    assert max(world.answered.values()) == 1, f"{where}: {world.answered}"
    assert len(world.asked) == 1, f"{where}: {world.asked}"


async def test_a_try_that_cannot_begin_for_want_of_something_leaves_no_step(autojump_clock: object) -> None:
    missing = [True, True, False]

    async def work(run: AgentRun[Any, Any]) -> TurnResult:
        await trio.lowlevel.checkpoint()
        if missing.pop(0):
            raise NotReady("there is no server")
        return TurnResult(message="done")

    store, ended = MemoryStore(), list[str]()
    while missing:
        wanted = [Feature("f", "d", steps="s")]
        harness = FeatureHarness(Agent(work), Passing(), objective="o", features=wanted, health_check=NoHealthCheck())
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            ended.append(str(await orchestrator.start(harness, name="f").wait()).split(":", maxsplit=1)[0])

    assert ended == ["blocked", "blocked", "completed"]
    assert [step.output["status"] for step in store.steps("f")] == ["done", "passed"]


async def test_an_agent_that_waits_for_approval_before_all_else_waits_for_the_same_one(autojump_clock: object) -> None:
    paid = list[int]()

    async def work(run: AgentRun[Any, Any]) -> TurnResult:
        await run.once("pay", paid.append, 5, approval=Action("pay", "pay 5"))
        return TurnResult(message="paid")

    store, ended = MemoryStore(), list[str]()
    for end in ("stop", "cancel", "answer"):
        wanted = [Feature("f", "d", steps="s")]
        harness = FeatureHarness(Agent(work), Passing(), objective="o", features=wanted, health_check=NoHealthCheck())
        async with trio.open_nursery() as nursery, Orchestrator(store, handle_signals=False) as orchestrator:
            handle = orchestrator.start(harness, name="f")
            await trio.sleep(1)
            if end == "answer":
                await orchestrator.approve(store.approvals()[0].id, by="ann")
            elif end == "stop":
                await handle.stop()
            else:
                nursery.cancel_scope.cancel()
            ended.append(str(await handle.wait()))

    assert (ended[-1], paid, len(store.approvals())) == ("completed", [5], 1)


async def test_a_turn_that_is_stopped_again_and_again_goes_on_each_time(autojump_clock: object) -> None:
    for each in (2, 3):
        world, store, ended = World(each), MemoryStore(), [""]
        while ended[-1] != "completed" and len(ended) < 9:
            ended.append(await live(world, store, "stop"))
            world.at = world.passed + each
        where = f"stopped at each {each}: {ended}"
        assert len(ended) > 3, where
        assert ended[-1] == "completed", where
        check(world, where)
