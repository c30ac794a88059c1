"""Calls of tools: found, judged, counted, made once, bounded in time and size; and what the model is told."""

from __future__ import annotations

import json
import threading

import pytest
import trio

from harnesses.agent import AgentRun
from harnesses.agents.tools import tool_threads
from harnesses.agents.tools.function_tool import function_tool
from harnesses.agents.tools.tool import ToolEffect, ToolError
from harnesses.agents.tools.tool_policy import ToolPolicy
from harnesses.agents.tools.tool_runner import MAX_RESULT
from harnesses.errors import BudgetExhausted, HarnessMisuse, NotReady
from harnesses.governance.limits.counted_agent import AgentStopped, tallying
from harnesses.governance.limits.guardrails import Guardrails
from tests.harnesses.agents.tools.turn_tools import agent_run, call_of, opened


class Counter:
    def __init__(self, error: BaseException | None = None) -> None:
        self.made = 0
        self.error = error

    async def count(self, step: int = 1) -> str:
        self.made += step
        if self.error is not None:
            raise self.error
        return f"made {self.made}"


async def test_a_call_under_the_same_key_is_made_once():
    counter, run = Counter(), agent_run()
    async with opened(function_tool(counter.count), run=run) as call:
        first = await call.box.run(call_of("count"), "a")
    async with opened(function_tool(counter.count), run=run) as call:
        again = await call.box.run(call_of("count"), "a")

    assert (first.text, again, counter.made) == ("made 1", first, 1)


@pytest.mark.parametrize(
    "error", [ValueError("no such row"), ToolError("no such row"), ExceptionGroup("", [OSError("no such row")])]
)
async def test_an_error_of_a_tool_is_told_and_kept_and_where_it_came_from_is_logged_once(error, monkeypatch):
    logged: list[str] = []
    monkeypatch.setattr(AgentRun, "log", lambda run, line: logged.append(line))
    counter, run = Counter(error), agent_run()
    async with opened(function_tool(counter.count), run=run) as call:
        results = [await call.box.run(call_of("count"), "a") for _ in range(2)]

    assert results[0] == results[1]
    assert results[0].is_error
    assert "no such row" in results[0].text
    assert counter.made == 1
    assert "\n".join(logged).count("in count\n") == (0 if isinstance(error, ToolError) else 1)


@pytest.mark.parametrize("error", [NotReady("bwrap"), BudgetExhausted("all spent"), HarnessMisuse("wrong")])
async def test_what_ends_or_blocks_the_harness_is_raised(error):
    with pytest.raises(type(error)):
        async with opened(function_tool(Counter(error).count)) as call:
            await call("count")


async def test_an_unknown_tool_is_told_with_the_known_ones():
    async with opened(function_tool(Counter().count)) as call:
        result = await call("cuont")

    assert result.is_error
    assert result.text == "there is no tool 'cuont': expected one of count"


async def test_arguments_that_are_no_object_are_told():
    async with opened(function_tool(Counter().count)) as call:
        result = await call.box.run(call_of("count").__class__(id="1", name="count", arguments="[}"), "a")

    assert result.is_error
    assert "not valid JSON" in result.text


async def test_a_call_that_takes_too_long_is_ended_and_told(autojump_clock):
    async with opened(function_tool(trio.sleep, timeout_s=5)) as call:
        result = await call("sleep", seconds=60)

    assert trio.current_time() < 10
    assert result.is_error
    assert "took longer than 5 s" in result.text


async def test_the_middle_of_a_long_result_is_cut_with_a_note():
    def talk() -> str:
        return "a" + "b" * MAX_RESULT + "c\ud800"

    async with opened(function_tool(talk)) as call:
        result = await call("talk")

    assert result.text[0] == "a"
    assert result.text[-2:] == "c?"
    assert f"of {MAX_RESULT + 3} characters are cut" in result.text
    assert len(result.text) < MAX_RESULT + 100


async def test_calls_that_act_run_one_at_a_time_and_those_that_read_beside_each_other(autojump_clock):
    now, most = dict.fromkeys(ToolEffect, 0), dict.fromkeys(ToolEffect, 0)

    def busy(effect: ToolEffect):
        async def work() -> None:
            now[effect] += 1
            most[effect] = max(most[effect], now[effect])
            await trio.sleep(1)
            now[effect] -= 1

        return function_tool(work, name=effect.value, effect=effect)

    async with opened(busy(ToolEffect.READS), busy(ToolEffect.ACTS)) as call:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(call, "reads")
                nursery.start_soon(call, "acts")
        assert (call.box.is_parallel("reads"), call.box.is_parallel("acts")) == (True, False)

    assert (most[ToolEffect.READS], most[ToolEffect.ACTS]) == (3, 1)


async def test_calls_are_counted_by_guardrails_and_stopped_before_the_limit_is_exceeded():
    counter = Counter()
    with tallying(Guardrails(max_tool_calls_per_task=2)) as tally:
        async with opened(function_tool(counter.count)) as call:
            results = [await call("count") for _ in range(2)]
            with pytest.raises(AgentStopped):
                await call("count")

    assert [result.is_error for result in results] == [False, False]
    assert (tally.tool_calls, counter.made) == (2, 2)


async def test_a_denied_call_is_not_made_and_the_model_is_told():
    counter = Counter()
    async with opened(function_tool(counter.count), policy=ToolPolicy(deny=["count(9)"])) as call:
        results = [await call("count", step=9), await call("count", step=1)]

    assert [result.is_error for result in results] == [True, False]
    assert "denied" in results[0].text
    assert counter.made == 1


@pytest.mark.parametrize("now", ["denied", "gone", "allowed after a refusal"])
@pytest.mark.parametrize("flag", ["keep", "idempotent"])
async def test_a_call_that_was_cut_off_is_settled_though_it_is_judged_otherwise_now(now, flag):
    run, counter = agent_run(), Counter()
    key, name = run.scope + "round/1/tool/1", "count"
    begun: list[object] = [name, {"step": 1}, ""] if now != "allowed after a refusal" else [name, '{"step":1}']
    flags = {flag: True} if now != "allowed after a refusal" else {"idempotent": True}
    intent = json.dumps({"key": key, "arguments": begun, **flags})
    run._services()._runtime.effects.restore([("intent", intent)])
    tools = [] if now == "gone" else [function_tool(counter.count)]
    async with opened(*tools, run=run, policy=ToolPolicy(deny=[name]) if now == "denied" else None) as call:
        result = await call(name, step=1)
        again = await call.box.run(call_of(name, step=1), "round/1/tool/1")

    assert result.is_error
    assert again.text == result.text
    assert counter.made == 0
    assert flag != "keep" or now == "allowed after a refusal" or "may have happened" in result.text


async def test_threads_that_were_left_hold_up_nothing_and_are_told_once_there_are_no_more(monkeypatch):
    monkeypatch.setattr(tool_threads, "MAX_THREADS", 2)
    release, ended = threading.Event(), [threading.Event(), threading.Event()]

    def wait(number: int) -> str:
        if number < 2:
            release.wait()
            ended[number].set()
        return "done"

    tool = function_tool(wait, effect=ToolEffect.READS, timeout_s=0.05)
    async with opened(tool) as call:
        late = [await call("wait", number=number) for number in (0, 1)]
        with trio.fail_after(5):
            await trio.to_thread.run_sync(lambda: None)
        refused = await call("wait", number=2)
        release.set()
        for event in ended:
            await trio.to_thread.run_sync(event.wait)
        with trio.fail_after(5):
            while (await call("wait", number=2)).is_error:  # noqa: ASYNC110
                await trio.sleep(0.01)

    assert all("took longer" in result.text for result in late)
    assert "all 2 threads of tools are held" in refused.text


async def test_two_tools_of_the_program_with_one_name_are_refused():
    with pytest.raises(HarnessMisuse, match="two called 'count'"):
        async with opened(function_tool(Counter().count), function_tool(Counter().count)):
            pass
