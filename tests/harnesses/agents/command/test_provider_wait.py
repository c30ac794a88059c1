"""Outages, limits and refused keys of a program's provider: what they are read from, and that none of them is a try."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
from attrs import evolve

from harnesses.agent import Agent
from harnesses.agents import AgentFailed, AgentUnavailable, CommandAgent, Dialect, codex
from harnesses.agents.command.agent_output import Reply
from harnesses.agents.command.aider_output import AiderReading
from harnesses.agents.command.claude_code_output import ClaudeCodeReading
from harnesses.agents.command.program_failures import limit_ends_at, provider_failure
from harnesses.agents.model.errors import (
    AuthenticationFailed,
    ContextTooLong,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    UsageLimitReached,
)
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.features import Assignment, Feature, FeatureHarness, FeatureState, FeatureStatus, TurnResult, accept_all
from harnesses.processes.bounded_command import Ran
from harnesses.timing.clock import now_s
from tests.harnesses.agents.turns import assigned, take_turn

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC).timestamp()
QUICK = RetryPolicy(probe_base_s=0.3, probe_cap_s=0.3, seed=1)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', ProviderUnavailable),
        ("API Error: Connection error.", ProviderUnavailable),
        ("stream disconnected before completion: error sending request for url", ProviderUnavailable),
        ("unexpected status 503 Service Unavailable: upstream", ProviderUnavailable),
        ("litellm.InternalServerError: AnthropicException - Overloaded. Handle with `litellm`", ProviderUnavailable),
        ("exceeded retry limit, last status: 429 Too Many Requests", RateLimited),
        ("[API Error: Resource exhausted (Status: RESOURCE_EXHAUSTED)]", RateLimited),
        ("Claude AI usage limit reached|1795899600", UsageLimitReached),
        ("You've hit your usage limit. Upgrade to Pro or try again in 2 hours 5 minutes.", UsageLimitReached),
        ("You've hit your limit · resets 3pm (UTC)", UsageLimitReached),
        ("Credit balance is too low", UsageLimitReached),
        ("Invalid API key · Please run /login", AuthenticationFailed),
        ('API Error: 401 {"type":"error","error":{"type":"authentication_error"}} · Please run /login', AuthenticationFailed),
        ("unexpected status 401 Unauthorized: Missing bearer", AuthenticationFailed),
        ("litellm.AuthenticationError: AnthropicException - invalid x-api-key", AuthenticationFailed),
        ("litellm.BadRequestError: LLM Provider NOT provided.", RequestRejected),
        ("There's an issue with the selected model (opus-9). It may not exist", RequestRejected),
        ("Prompt is too long", ContextTooLong),
        ("3 tests failed with 500 errors in all", None),
        ("I could not find the file", None),
    ],
)
def test_what_has_failed_at_the_provider_is_read_from_the_error(said: str, kind: type[Exception] | None) -> None:
    found = provider_failure("codex", Ran(1, "429 Too Many Requests in a test", 1.0), Reply(error=said), NOW)
    assert (type(found) if found is not None else None) is kind


def test_the_last_output_counts_only_if_the_agent_has_not_worked() -> None:
    ran = Ran(1, "Error: 529 overloaded", 1.0)
    assert provider_failure("codex", ran, Reply(error="tests fail", worked=True), NOW) is None
    assert isinstance(provider_failure("codex", ran, Reply(error="it ended", worked=False), NOW), ProviderUnavailable)
    assert provider_failure("codex", ran, Reply(worked=True), NOW) is None
    assert provider_failure("codex", Ran(0, "overloaded", 1.0), Reply(), NOW) is None
    assert provider_failure("codex", Ran(None, "overloaded", 1.0), Reply(error="overloaded"), NOW) is None


@pytest.mark.parametrize(
    ("said", "hours"),
    [
        (f"Claude AI usage limit reached|{NOW + 7_200:.0f}", 2),
        ("hit your usage limit, try again in 1 day 2 hours 30 minutes.", 26.5),
        ("Your quota will reset after 18h30m0s.", 18.5),
        ("You've hit your limit · resets 3pm (UTC)", 3),
        ("5-hour limit reached ∙ resets 3am (UTC)", 15),
        ("weekly limit reached · resets Dec 1, 1:30pm (UTC)", 73.5),
        ("try again at Nov 29th, 2026 3:00 PM (UTC).", 27),
        ("hit your limit · resets 3am (America/New_York)", 20),
        ("hit your limit · resets 31pm (Nowhere/At_all)", None),
        ("try again later", None),
        ("usage limit reached|9999999999", None),
        ("usage limit reached, try again in 9 days", None),
        ("weekly limit reached · resets Jan 5, 1:30pm (UTC)", None),
    ],
)
def test_the_end_of_a_limit_is_read(said: str, hours: float | None) -> None:
    ends_at = limit_ends_at(said, NOW)
    assert (None if ends_at is None else (ends_at - NOW) / 3_600) == hours


def test_claude_code_tells_the_end_of_a_limit_in_an_event_and_aider_its_error_in_words() -> None:
    reading = ClaudeCodeReading()
    info = {"status": "rejected", "resetsAt": NOW + 60, "rateLimitType": "five_hour"}
    reading.line(json.dumps({"type": "rate_limit_event", "rate_limit_info": info}))
    reading.line(json.dumps({"type": "result", "subtype": "success", "is_error": True, "result": "You've hit your limit"}))
    found = provider_failure("claude-code", Ran(1, "", 1.0), reading.reply(), NOW)
    assert isinstance(found, UsageLimitReached)
    assert found.resets_at == NOW + 60
    for told, ends_at in ((NOW + 9 * 86_400, None), (NOW - 1, None)):
        found = provider_failure("claude-code", Ran(1, "", 1.0), evolve(reading.reply(), resets_at=told), NOW)
        assert isinstance(found, UsageLimitReached)
        assert found.resets_at is ends_at

    plain = AiderReading()
    plain.line("litellm.AuthenticationError: AnthropicException - invalid x-api-key")
    plain.line("The API provider is not able to authenticate you. Check your API key.")
    assert isinstance(provider_failure("aider", Ran(0, "", 1.0), plain.reply(), NOW), AuthenticationFailed)
    plain.line("Tokens: 2.3k sent, 123 received.")
    assert plain.reply().error is None


PROGRAM = """
import json, os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
with open(place / "runs", "a") as runs:
    runs.write(f"{time.time()}\\n")
def event(**fields):
    print(json.dumps(fields), flush=True)
event(type="thread.started", thread_id="t1")
event(type="turn.started")
if time.time() < float((place / "down_until").read_text()):
    event(type="turn.failed", error={"message": (place / "words").read_text()})
    sys.exit(1)
event(type="item.completed", item={"id": "1", "type": "agent_message", "text": "done"})
event(type="turn.completed", usage={"input_tokens": 20, "output_tokens": 6})
"""


def program(place: Path, words: str, down_s: float, max_wait_s: float = 60.0) -> Callable[[], CommandAgent]:
    """Return a maker of agents whose provider is down for so many seconds, and says so in these words."""
    (place / "program.py").write_text(PROGRAM)
    (place / "down_until").write_text(str(now_s() + down_s))
    (place / "words").write_text(words)
    (place / "runs").touch()
    command = [sys.executable, "-S", str(place / "program.py"), str(place)]
    env = {"OPENAI_API_KEY": str(place)}
    return lambda: CommandAgent(command, dialect=codex(), resume=command, retry=QUICK, env=env, max_wait_s=max_wait_s)


def runs(place: Path) -> int:
    return len((place / "runs").read_text().splitlines())


async def test_an_outage_is_waited_for_in_the_same_turn_and_one_agent_probes_for_all(tmp_path: Path) -> None:
    make, log, done = program(tmp_path, "unexpected status 529: overloaded", 1.5), list[str](), list[str]()

    async def work() -> None:
        done.append((await take_turn(make(), assigned(tmp_path), log)).message)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(work)
    assert done == ["done"] * 4
    assert runs(tmp_path) <= 4 + 4 + 12
    assert not [line for line in log if "could not be resumed" in line]


async def test_an_outage_that_lasts_too_long_blocks_with_what_to_do(tmp_path: Path) -> None:
    agent = program(tmp_path, "stream disconnected before completion", 300, 0.5)()
    with pytest.raises(AgentUnavailable, match=r"expected it within 0\.5 s.*stream disconnected.*start again") as caught:
        await take_turn(agent, assigned(tmp_path))
    assert caught.value.session == "t1"


async def test_a_usage_limit_is_waited_for_until_the_time_it_names_and_the_log_says_so(tmp_path: Path) -> None:
    ends_at, log = int(now_s()) + 3, list[str]()
    agent = program(tmp_path, f"usage limit reached|{ends_at}", ends_at - now_s() - 0.2, 0.5)()
    assert (await take_turn(agent, assigned(tmp_path), log)).message == "done"
    assert now_s() >= ends_at
    assert runs(tmp_path) == 2
    until = datetime.fromtimestamp(ends_at, UTC).strftime("%Y-%m-%d %H:%M")
    assert any(line.startswith("! model codex") and f"waiting until {until}" in line for line in log)
    assert any("answered after a wait of" in line for line in log)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("unexpected status 401 Unauthorized", "is not signed in: .*sign in, or pass the key"),
        ("model 'gpt-9' does not exist", "correct its model or arguments"),
    ],
)
async def test_a_refused_key_or_model_blocks_at_once_and_spends_no_try(tmp_path: Path, words: str, why: str) -> None:
    agent = program(tmp_path, words, 300)()
    with pytest.raises(AgentUnavailable, match=why):
        await take_turn(agent, assigned(tmp_path))
    assert runs(tmp_path) == 1


async def test_a_program_without_a_provider_fails_as_it_always_did(tmp_path: Path) -> None:
    dialect = Dialect(name="mine", command=("sh", "-c", "echo Error: 529 overloaded; exit 1"))
    with pytest.raises(AgentFailed) as caught:
        await take_turn(CommandAgent(dialect=dialect), assigned(tmp_path))
    assert type(caught.value) is AgentFailed


@pytest.mark.parametrize(("words", "down_s", "passes"), [("overloaded", 1, True), ("Invalid API key", 300, False)])
async def test_a_feature_spends_no_try_on_its_provider(tmp_path: Path, words: str, down_s: float, passes: bool) -> None:
    agent = program(tmp_path, words, down_s)()
    placed = Agent[FeatureState, Assignment, TurnResult](
        lambda run: agent.answer(evolve(run, input=evolve(run.input, directory=str(tmp_path)))), name="placed"
    )
    harness = FeatureHarness(placed, accept_all(), objective="It works.", features=[Feature("a", "It is.", steps=["see"])])
    with trio.fail_after(30), nullcontext() if passes else pytest.raises(AgentUnavailable):
        await harness.run()
    standing = harness.state.standings[0]
    assert (standing.status is FeatureStatus.PASSED, standing.tries) == ((True, 1) if passes else (False, 0))
