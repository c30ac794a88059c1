"""What an agent call may use: effects of its own, spending, events and spans, without holding its harness."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from attrs import evolve

from harnesses import Agent, AgentRun, BaseHarness, Budget, Control, HarnessMisuse, LoadedContext, LocalRuntime, Spend
from harnesses.agent_spans import AgentSpan
from harnesses.effects import effect as effect_module
from harnesses.errors import BudgetExhausted, EffectFailed, Waiting
from harnesses.features import Feature, FeatureState, TurnResult
from harnesses.features.feature_record import Assignment
from harnesses.features.streaming import StreamingAgent, observe
from harnesses.governance.limits.counted_agent import limited
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.turn_events import TurnEvent
from tests.harnesses.outside import Notes, Scripted

ALONE: dict[str, Any] = {"context": LoadedContext(0), "step_number": 1}


class Tools:
    """An agent whose turn is a list of tool calls, and what they did."""

    def __init__(self, *keys: str, name: str = "coder") -> None:
        self.done: list[str] = []
        self.keys = keys
        self.agent: Agent[Any, Any, Any] = Agent(self.turn, name=name)
        self.dies_after: int | None = None

    async def act(self, key: str) -> str:
        if len(self.done) == self.dies_after:
            raise Died
        self.done.append(key)
        return f"did {key}"

    async def turn(self, run: AgentRun[Any, Any]) -> list[str]:
        return [await run.once(key, self.act, f"{run.input} {key}") for key in self.keys]


class Died(BaseException):
    """The program is killed."""


def keys(harness: BaseHarness[Any, Any, Any]) -> list[str]:
    return [effect.key for effect in harness.effects]


# scopes


async def test_calls_of_an_agent_are_numbered_within_the_step_and_named_if_their_caller_names_them(autojump_clock):
    tools = Tools("edit")

    async def script(harness: Scripted):
        for step in (1, 2):
            for key in ("", "", "parser"):
                await harness.run_agent(tools.agent, f"{step}{key}", key=key)
            yield step, keys(harness)

    harness = Scripted(script)
    await harness.run()

    assert [step.output for step in harness.step_history] == [["coder#1/edit", "coder#2/edit", "coder:parser/edit"]] * 2
    assert len(tools.done) == 6


async def test_an_attempt_that_resumes_a_step_meets_the_records_of_its_own_calls(autojump_clock):
    tools = Tools("read", "edit")
    tools.dies_after = 3

    async def script(harness: Scripted):
        yield 1, [await harness.run_agent(tools.agent, number) for number in (1, 2)]

    runtime = Notes()
    with pytest.raises(Died):
        await Scripted(script).run(runtime)
    tools.dies_after = None
    runtime.marks.append(("outcome", '{"key":"coder#2/edit","outcome":"not_done"}'))
    harness = Scripted(script)
    await harness.run(runtime.next_life())

    assert tools.done == ["1 read", "1 edit", "2 read", "2 edit"]
    assert harness.step_history[0].output == [["did 1 read", "did 1 edit"], ["did 2 read", "did 2 edit"]]


@pytest.mark.parametrize("name", ["a/b#1", "ä" * 70, "a" * 300, "", "\ud800"])
@pytest.mark.parametrize("key", ["k", "k" * 200, "k" * 5000])
async def test_a_key_is_stored_in_at_most_200_characters_whatever_the_names(name: str, key: str, autojump_clock):
    tools, other = Tools(key, f"{key}2", name=name), Tools(key, name=f"{name}x")

    async def script(harness: Scripted):
        for agent in (tools.agent, other.agent):
            await harness.run_agent(agent, 1, key="c" * 300)
            await harness.run_agent(agent, 1)
        yield 1, keys(harness)

    harness = Scripted(script)
    await harness.run()

    found = harness.step_history[0].output
    assert len(set(found)) == 6
    assert max(map(len, found)) <= 200


async def test_an_empty_key_is_refused_as_by_a_harness(autojump_clock):
    with pytest.raises(HarnessMisuse, match="expected a key of 1 to 200 characters, got ''"):
        await Tools("").agent.run(input=1, **ALONE)


async def test_an_agent_called_by_another_has_a_scope_below_it(autojump_clock):
    inner = Tools("edit", name="inner")

    async def lead(run: AgentRun[Any, Any]) -> Any:
        await run.once("plan", inner.act, "plan")
        return [await inner.agent.run(input=number, context=run.context, step_number=1) for number in (1, 2)]

    async def script(harness: Scripted):
        await harness.run_agent(Agent(lead, name="lead"), 0)
        await harness.run_agent(inner.agent, 3)
        yield 1, keys(harness)

    harness = Scripted(script)
    await harness.run()

    below = ["lead#1/plan", "lead#1/inner#1/edit", "lead#1/inner#2/edit", "inner#1/edit"]
    assert harness.step_history[0].output == below


async def test_an_agent_with_an_earlier_signature_of_run_has_the_services_too(autojump_clock):
    tools = Tools("edit")

    class Older(Agent[Any, Any, Any]):
        async def run(  # type: ignore[override]
            self,
            *,
            input: Any,
            context: Any,
            step_number: int,
            step_history: Sequence[Any] = (),
            constraints: Any = None,
            log=None,
        ) -> Any:
            return await super().run(input=f"older {input}", context=context, step_number=step_number)

    async def script(harness: Scripted):
        await harness.run_agent(Older(tools.turn, name="older"), 1)
        yield 1, keys(harness)

    harness = Scripted(script)
    await harness.run()

    assert harness.step_history[0].output == ["older#1/edit"]


async def test_agents_that_delegate_hand_on_the_run(autojump_clock):
    assignment = Assignment(feature=Feature("a", "A."), turn=1, prompt="", objective="")

    async def work(run: AgentRun[Any, Any]) -> TurnResult:
        await run.once("edit", str, run.input.turn)
        return TurnResult()

    async def stream(run: AgentRun[Any, Any]):
        yield TurnEvent.complete(await work(run))

    agents: list[Any] = [
        limited(Agent(work, name="a"), Guardrails()),
        observe(Agent(work, name="b"), lambda event: None),
        StreamingAgent(stream, name="c"),
        observe(StreamingAgent(stream, name="d"), lambda event: None),
    ]

    async def script(harness: Scripted):
        for agent in agents:
            await harness.run_agent(agent, assignment)
        yield 1, keys(harness)

    harness = Scripted(script, FeatureState())
    await harness.run()

    assert harness.step_history[0].output == [f"{name}#1/edit" for name in "abcd"]


# alone


async def test_an_agent_alone_calls_a_function_once_for_each_key_of_a_run(autojump_clock):
    tools = Tools("edit", "edit", "read")

    async def fail() -> None:
        raise ValueError("no")

    async def work(run: AgentRun[Any, Any]) -> Any:
        with pytest.raises(EffectFailed):
            await run.once("bad", fail, errors="keep")
        async with run.spending(tokens=5) as spend:
            spend.settle(tokens=1)
        run.tell("event")
        with run.span("round") as span:
            span.set(tokens=1)
        return await tools.turn(run), run.recorded("read"), run.recorded("bad"), run.recorded("never")

    for number in (1, 2):
        did, read, bad, never = await Agent(work).run(input=number, **ALONE)
        assert did == [f"did {number} edit", f"did {number} edit", f"did {number} read"]
        assert (read.result, bad.reason, never) == (f"did {number} read", "ValueError: no", None)

    assert tools.done == ["1 edit", "1 read", "2 edit", "2 read"]


async def test_runs_that_are_compared_need_not_have_the_same_services(autojump_clock):
    run = AgentRun(input=1, **ALONE)
    await run.once("edit", str, 1)

    assert run == AgentRun(input=1, **ALONE)
    assert evolve(run, input=2).recorded("edit") is None


async def test_an_effect_that_needs_approval_is_refused_alone(autojump_clock):
    async def work(run: AgentRun[Any, Any]) -> Any:
        await run.once("push", str, 1, approval="publish")

    with pytest.raises(Waiting, match=r"needs an approval .* runs alone"):
        await Agent(work, name="coder").run(input=1, **ALONE)


# what is decoded


async def test_only_what_is_looked_at_is_decoded(autojump_clock, monkeypatch):
    decoded = 0

    def counting(text: Any) -> Any:
        nonlocal decoded
        decoded += 1
        return real(text)

    real = effect_module._decode
    monkeypatch.setattr(effect_module, "_decode", counting)

    async def work(run: AgentRun[Any, Any]) -> Any:
        for number in range(200):
            for tool in range(3):
                await run.once(f"{number} {tool}", str, number)
            known = run.recorded(f"{number} 0")
            assert known is not None
            assert known.result == str(number)
            assert len(harness.effects) == 3 * (number + 1)

    async def script(harness: Scripted):
        await harness.run_agent(Agent(work), 1)
        before = decoded
        assert {effect.result for effect in harness.effects} == {str(number) for number in range(200)}
        assert {effect.result for effect in harness.effects} == {str(number) for number in range(200)}
        yield before, decoded - before

    harness = Scripted(script)
    await harness.run()

    # One for each `recorded` whose result is read; then the 400 others, once.
    assert (harness.step_history[0].input, harness.step_history[0].output) == (200, 400)


# spending


async def test_an_overspend_stops_the_agent_before_its_next_call(autojump_clock):
    done: list[str] = []

    async def work(run: AgentRun[Any, Any]) -> Any:
        async with run.spending(tokens=10) as spend:
            await run.once("model 1", done.append, "model 1")
            spend.settle(tokens=30)
        done.append("told")
        await run.once("model 1", done.append, "model 1")
        await run.once("tool", done.append, "tool")

    async def script(harness: Scripted):
        await harness.run_agent(Agent(work, reports=["tokens"]), 1)
        yield 1, 1

    with pytest.raises(BudgetExhausted, match="limit 20, spent 30"):
        await Scripted(script).run(LocalRuntime("one", budget=Budget(tokens=20)))

    assert done == ["model 1", "told"]


@pytest.mark.parametrize(("on_cutoff", "charged"), [(None, 10), (Spend(tokens=3), 3), (Spend(), 0)])
async def test_a_spend_that_is_cut_off_is_charged_by_what_is_known_of_it(on_cutoff: Any, charged: int, autojump_clock):
    async def work(run: AgentRun[Any, Any]) -> Any:
        async with run.spending(tokens=10, on_cutoff=on_cutoff):
            raise ValueError("cut off")

    async def script(harness: Scripted):
        with pytest.raises(ValueError, match="cut off"):
            await harness.run_agent(Agent(work, reports=["tokens"]), 1)
        yield 1, 1

    runtime = LocalRuntime("one", budget=Budget(tokens=20))
    await Scripted(script).run(runtime)

    assert runtime.till is not None
    assert runtime.till.accounts()[0].spent == Spend(tokens=charged)


def test_no_more_can_be_charged_for_a_cut_off_than_is_reserved():
    run = AgentRun(input=1, **ALONE)

    with pytest.raises(HarnessMisuse, match="on_cutoff: expected at most the 10 tokens reserved, got 11"):
        run.spending(tokens=10, on_cutoff=Spend(tokens=11))


# pause


async def test_a_paused_agent_waits_before_its_next_call_and_its_clocks_stand_still(autojump_clock):
    control = Control(step_timeout_s=10)
    began: list[float] = []

    async def tool() -> None:
        began.append(trio.current_time() - start)
        await trio.sleep(4)

    async def work(run: AgentRun[Any, Any]) -> Any:
        for number in range(2):
            await run.once(f"tool {number}", tool)

    async def script(harness: Scripted):
        await harness.run_agent(Agent(work), 1)
        yield 1, 1

    async def orders() -> None:
        await trio.sleep(1)
        control.pause()
        await trio.sleep(100)
        control.resume()

    start = trio.current_time()
    harness = Scripted(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(orders)
        await harness.run(LocalRuntime("one", control))

    assert began == [0, 101]
    assert harness.current_step == 1


async def test_a_step_timeout_goes_on_where_it_stood(autojump_clock):
    control = Control(step_timeout_s=10)

    async def work(run: AgentRun[Any, Any]) -> Any:
        await trio.sleep(4)
        await run.once("tool", str, 1)
        await trio.sleep(7)

    async def script(harness: Scripted):
        await harness.run_agent(Agent(work), 1)
        yield 1, 1

    async def orders() -> None:
        await trio.sleep(1)
        control.pause()
        await trio.sleep(100)
        control.resume()

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(orders)
        with pytest.raises(Exception, match="no step within 10 s"):
            await Scripted(script).run(LocalRuntime("one", control))

    assert trio.current_time() - start == 101 + 6


async def test_a_paused_agent_is_stopped_at_once(autojump_clock):
    control, tools = Control(), Tools("edit")

    async def work(run: AgentRun[Any, Any]) -> Any:
        await trio.sleep(2)
        async with trio.open_nursery() as nursery:
            for key in "ab":
                nursery.start_soon(run.once, key, tools.act, key)

    async def script(harness: Scripted):
        await harness.run_agent(Agent(work), 1)
        yield 1, 1

    async def orders() -> None:
        await trio.sleep(1)
        control.pause()
        await trio.sleep(9)
        control.stop(60)

    start = trio.current_time()
    harness = Scripted(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(orders)
        ending = await harness.run(LocalRuntime("one", control))

    assert (ending.value, trio.current_time() - start) == ("stopped", 10)
    assert (tools.done, harness.current_step) == ([], 0)


@pytest.mark.parametrize("pause_first", [False, True])
async def test_clocks_that_an_approval_and_a_pause_have_stopped_run_on_when_both_are_over(pause_first: bool, autojump_clock):
    control = Control(step_timeout_s=10)
    times: list[float] = []

    async def approve(key: str, action: Any) -> bool:
        await trio.sleep(50 if pause_first else 20)
        return True

    async def asking(run: AgentRun[Any, Any]) -> None:
        await trio.sleep(1)
        await run.once("push", str, 1, approval="publish")

    async def work(run: AgentRun[Any, Any]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asking, run)
            await trio.sleep(3)
            await run.once("edit", str, 1)
        times.append(trio.current_time() - start)
        await trio.sleep(100)

    async def script(harness: Scripted):
        await harness.run_agent(Agent(work), 1)
        yield 1, 1

    async def orders() -> None:
        await trio.sleep(2)
        control.pause()
        await trio.sleep(40)
        control.resume()

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(orders)
        with pytest.raises(Exception, match="no step within 10 s"):
            await Scripted(script).run(LocalRuntime("one", control, approver=approve))

    # The step has worked for 1 s when the clocks stop, until both are over; 9 s are left then.
    over = 51 if pause_first else 42
    assert times == [over]
    assert trio.current_time() - start == over + 9


# agents that work while steps are recorded


async def test_the_effects_of_an_agent_in_the_background_go_on_over_steps(autojump_clock):
    done: list[str] = []

    async def slow(what: str) -> str:
        await trio.sleep(3)
        done.append(what)
        return what

    async def work(run: AgentRun[Any, Any]) -> None:
        for number in range(4):
            assert await run.once(f"{number}", slow, f"{run.input} {number}") == f"{run.input} {number}"
            assert run.recorded("0") is not None

    async def script(harness: Scripted):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.run_agent, agent, "a")
            for step in range(1, 8):
                await trio.sleep(2)
                if step == 2:
                    nursery.start_soon(harness.run_agent, agent, "b")
                yield step, keys(harness)

    agent: Agent[Any, Any, Any] = Agent(work, name="worker")
    harness = Scripted(script)
    await harness.run()

    assert sorted(done) == [f"{name} {number}" for name in "ab" for number in range(4)]
    assert len(done) == 8
    assert harness.current_step == 7


@pytest.mark.parametrize("stops", [False, True])
async def test_a_step_waits_for_the_approval_that_an_agent_in_the_background_asks_for(stops: bool, autojump_clock):
    control, done = Control(step_timeout_s=10), list[float]()

    async def approve(key: str, action: Any) -> bool:
        # As an orchestrator waits for an answer: a stop ends the wait.
        await control.sleep(100)
        return True

    async def act(what: str) -> None:
        await trio.sleep(5)
        done.append(trio.current_time() - start)

    async def work(run: AgentRun[Any, Any]) -> None:
        await run.once("push", act, "push", approval="publish")

    async def script(harness: Scripted):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.run_agent, Agent(work), 1)
            await trio.sleep(1)
            yield 1, trio.current_time() - start
            await trio.sleep(6)
            yield 2, trio.current_time() - start

    async def orders() -> None:
        await trio.sleep(50)
        if stops:
            control.stop(3)

    start = trio.current_time()
    harness = Scripted(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(orders)
        ending = await harness.run(LocalRuntime("one", control, approver=approve))

    if stops:
        assert (ending.value, done, harness.current_step) == ("stopped", [], 1)
        assert trio.current_time() - start < 54
    else:
        assert (ending.value, done) == ("finished", [105])
        assert [step.output for step in harness.step_history] == [1, 106]


async def test_an_effect_of_the_harness_itself_still_has_to_end_before_the_yield(autojump_clock):
    async def script(harness: Scripted):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.once, "slow", trio.sleep, 10)
            await trio.sleep(1)
            yield 1, 1

    with pytest.raises(HarnessMisuse, match="under way at the yield"):
        await Scripted(script).run()


# events and spans


class Telling(LocalRuntime):
    """Surroundings that follow the events and the spans of agents."""

    def __init__(self) -> None:
        super().__init__("one")
        self.told: list[tuple[Any, ...]] = []
        self.ended: list[AgentSpan] = []
        self.spans = self.ended.append

    def tell(self, event: object, *source: Any) -> None:
        self.told.append((event, *source))


async def test_events_and_spans_reach_the_surroundings(autojump_clock):
    async def tool(run: AgentRun[Any, Any], number: int) -> None:
        with run.span(f"tool {number}"):
            await trio.sleep(1)

    async def work(run: AgentRun[Any, Any]) -> None:
        run.tell("text")
        with run.span("round", {"number": 1}) as span:
            async with trio.open_nursery() as nursery:
                for number in range(2):
                    nursery.start_soon(tool, run, number)
            span.set(tokens=7)
            raise ValueError("no")

    async def script(harness: Scripted):
        with pytest.raises(ValueError, match="no"):
            await harness.run_agent(Agent(work, name="coder"), 1)
        yield 1, 1

    runtime = Telling()
    await Scripted(script).run(runtime)

    assert runtime.told[0][:2] == ("text", "coder")
    *tools, outer = runtime.ended
    assert {span.name for span in tools} == {"tool 0", "tool 1"}
    assert {span.parent for span in tools} == {outer}
    assert (outer.attributes, outer.error, outer.parent, outer.scope) == (
        {"number": 1, "tokens": 7},
        "ValueError",
        None,
        "coder#1/",
    )
    assert outer.start_us <= min(span.start_us for span in tools)
