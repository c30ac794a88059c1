"""Streamed events of agents: who follows gets them redacted and in order, who is too slow misses the oldest."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import trio

from harnesses import Agent, AgentRun, BaseHarness
from harnesses.turn_events import TurnEvent, TurnEventKind
from orchestrator import Orchestrator
from orchestrator.runtime.turn_feed import MOST_EVENTS, AgentEvent, TurnFeed
from tests.secrets.leaks import GITHUB

TEXT, DONE = TurnEventKind.TEXT_DELTA, TurnEventKind.MESSAGE_COMPLETE


def said(text: str, kind: TurnEventKind = TEXT, **more: Any) -> TurnEvent[Any]:
    return TurnEvent(kind=kind, text=text, **more)


def tell(feed: TurnFeed, *events: TurnEvent[Any]) -> list[AgentEvent]:
    before = feed.seq
    for event in events:
        feed.tell(event, "coder", "coder#1", 1)
    return feed.after(before)


def text_of(events: Sequence[AgentEvent], kind: TurnEventKind = TEXT) -> str:
    return "".join(told.event.text for told in events if told.event.kind is kind)


def test_nothing_is_kept_while_nobody_follows() -> None:
    feed = TurnFeed("h")

    assert tell(feed, said("one two three " * 100), said("", DONE)) == []
    assert feed.seq == 0


def test_a_secret_in_pieces_is_not_shown_wherever_it_is_cut() -> None:
    text = f"I found the token {GITHUB} in the file, and will not use it. " + "More words follow. " * 10
    for at in range(10, 70):
        feed = TurnFeed("h")
        feed.follow()
        shown = tell(feed, said(text[:at]), said(text[at:]), said(text, DONE))
        assert GITHUB not in text_of(shown) + text_of(shown, DONE)
        assert "I found the token [REDACTED] in the file" in text_of(shown)


@pytest.mark.parametrize("at", range(18, 60, 7))
def test_who_joins_in_mid_text_is_not_shown_the_rest_of_a_secret(at: int) -> None:
    text = f"the password is {GITHUB} and more words follow " * 2
    feed = TurnFeed("h")
    tell(feed, said(text[:at]))
    feed.follow()

    shown = text_of(tell(feed, said(text[at:]), said("", DONE)))

    assert not any(GITHUB[begin : begin + 8] in shown for begin in range(len(GITHUB) - 8))


def test_events_of_tools_are_shown_without_secrets() -> None:
    feed = TurnFeed("h")
    feed.follow()

    (shown,) = tell(feed, said(f"token={GITHUB}", TurnEventKind.TOOL_FINISHED, error=f"no {GITHUB}"))

    assert GITHUB not in repr(shown)


def test_two_calls_of_an_agent_do_not_mix() -> None:
    feed = TurnFeed("h")
    feed.follow()
    for call in ("a#1", "a#2"):
        feed.tell(said(f"{call} says "), "a", call, 1)
    for call in ("a#1", "a#2"):
        feed.tell(said("", DONE), "a", call, 1)

    shown = [(told.call, told.event.text) for told in feed.after(0) if told.event.kind is TEXT]
    assert shown == [("a#1", "a#1 says "), ("a#2", "a#2 says ")]


def test_a_slow_follower_misses_the_oldest_and_is_told_how_many() -> None:
    feed = TurnFeed("h")
    feed.follow()

    found = tell(feed, *[said(str(number), DONE) for number in range(MOST_EVENTS + 7)])

    assert len(found) == MOST_EVENTS
    assert (found[0].dropped, found[0].event.text, found[1].dropped) == (7, "7", 0)


def test_events_go_to_the_log_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="orchestrator.turns"):
        tell(TurnFeed("h"), said("hello ", TEXT), said("hello there", DONE))

    assert [record.fields["text"] for record in caplog.records] == ["hello ", "hello there"]  # type: ignore[attr-defined]


class Talking(BaseHarness[int, int, int]):
    """Asks an agent that talks."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        yield 1, await self.run_agent(Agent(talk, name="talker"), 1)


async def talk(run: AgentRun[Any, int]) -> int:
    for word in ("one ", "two ", "three "):
        run.tell(said(word))
        await trio.lowlevel.checkpoint()
    run.tell(said("one two three ", DONE))
    run.tell("not an event")
    return 3


async def test_a_handle_gives_the_events_until_the_harness_ends(autojump_clock: object) -> None:
    found: list[AgentEvent] = []
    async with Orchestrator() as orchestrator:
        handle = orchestrator.start(Talking(0), name="talking")
        async for told in handle.turn_events():
            found.append(told)

    assert text_of(found) == text_of(found, DONE) == "one two three "
    assert {(told.harness, told.agent, told.call, told.step) for told in found} == {("talking", "talker", "talker#1", 1)}


async def test_a_follower_that_never_looks_holds_up_nothing(autojump_clock: object) -> None:
    async with Orchestrator() as orchestrator:
        handle = orchestrator.start(Talking(0), name="talking")
        events = handle.turn_events()
        outcome = await handle.wait()
        events.close()

    assert str(outcome) == "finished"


async def test_a_display_gets_the_end_of_what_is_being_said_from_its_first_look_on(autojump_clock: object) -> None:
    feed = TurnFeed("h")

    assert feed.saying() == ""
    tell(feed, said("one two three " * 20))
    assert feed.saying().endswith("one two three one ")
    tell(feed, said("", DONE))
    assert feed.saying() == ""


def _piece(text: str) -> TurnEvent[object]:
    return TurnEvent(kind=TurnEventKind.TEXT_DELTA, text=text, rounds=1)


def test_a_follower_that_leaves_and_returns_in_the_middle_of_a_secret_is_not_shown_it() -> None:
    secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
    feed = TurnFeed("h")
    feed.follow()
    feed.tell(_piece(f"the word is {secret[:4]}"), "a", "a#1", 1)
    feed.leave()
    feed.tell(_piece(secret[4:8]), "a", "a#1", 1)
    feed.follow()
    feed.tell(_piece(f"{secret[8:]} ok. {'more ' * 1_000}"), "a", "a#1", 1)

    assert secret[8:] not in "".join(told.event.text for told in feed.after(0))


def test_the_text_of_a_step_that_was_cut_off_is_no_part_of_the_next_one() -> None:
    feed = TurnFeed("h")
    feed.follow()
    feed.tell(_piece("cut off"), "a", "a#1", 1)
    feed.tell(_piece("step 2 says"), "a", "a#1", 2)
    feed.tell(TurnEvent(kind=TurnEventKind.MESSAGE_COMPLETE, text="step 2 says", rounds=1), "a", "a#1", 2)

    assert [told.event.text for told in feed.after(0)] == ["step 2 says", "step 2 says"]
