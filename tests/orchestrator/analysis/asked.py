"""A small real run in which much happens, for the tests of questions: recorded once, as a store and as a log."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from harnesses import Action, Agent, Budget
from harnesses.agent import AgentRun
from harnesses.errors import Refused
from orchestrator import Backoff, Orchestrator
from orchestrator.analysis.answers.answer import Answer
from tests.orchestrator.scripted import STEADY, Scripted, Steps

SOURCES = ("run.db", "steps.jsonl")
NAMES = ("asking", "hopeless", "leader", "poisoned", "refused", "sender", "spender", "steady", "twin", "unsure")


async def think(run: AgentRun[Any, Any]) -> str:
    """Take a tenth of a second."""
    await trio.sleep(0.1)
    return f"thought {run.input}"


async def steady(harness: Scripted) -> Steps:
    """Make ten steps of half a second, with an agent and an effect in each."""
    while harness.current_step < 10:
        await harness.sleep(0.25)
        said = await harness.run_agent(Agent(think), harness.current_step)
        await harness.once(f"order-{harness.current_step}", order)
        harness.update_state(lambda count: count + 1)
        yield harness.current_step, said


async def order() -> str:
    """Take some time for an effect."""
    await trio.sleep(0.15)
    return "done"


async def hopeless(harness: Scripted) -> Steps:
    """Crash each time before its third step."""
    while harness.current_step < 2:
        yield harness.current_step, "made"
    raise RuntimeError(f"no luck with /srv/data/{harness.current_step}.txt")


async def sender(harness: Scripted) -> Steps:
    """Send two messages that can be read, and one that cannot."""
    for text in ("hello", "again", "poison")[harness.current_step :]:
        await harness.sleep(1.0)
        await harness.send("poisoned", text)
        yield text, "sent"


async def poisoned(harness: Scripted) -> Steps:
    """Read messages; crash on one."""
    while True:
        text = await harness.receive()
        if text == "poison":
            raise ValueError(f"cannot read {text}")
        yield text, "heard"


async def unsure(harness: Scripted) -> Steps:
    """Make a step, then an effect of which nobody knows whether it has happened."""
    yield 0, "begun"
    await harness.once("pay-7", fail)
    yield 1, "paid"


async def fail() -> None:
    """Fail, so that nobody knows."""
    raise OSError("the line is dead")


async def refused(harness: Scripted) -> Steps:
    """Have an effect refused, and go on."""
    try:
        await harness.once("buy-1", refuse)
    except Refused:
        yield 1, "refused"


async def refuse() -> None:
    """Say no."""
    raise Refused("not enough cash")


async def asking(harness: Scripted) -> Steps:
    """Ask a person, who does not answer."""
    yield 0, "asks"
    await harness.approval("pay", Action("order", "pay 100 to Bob"))
    yield 1, "paid"


async def leader(harness: Scripted) -> Steps:
    """Crash once, in its third second."""
    while harness.current_step < 4:
        await harness.sleep(1.0)
        yield harness.current_step, "led"
        if harness.current_step == 2 and not harness.ran:
            harness.ran.append("crashed")
            raise RuntimeError("bad luck")


async def twin(harness: Scripted) -> Steps:
    """Make six steps, one a second."""
    while harness.current_step < 6:
        await harness.sleep(1.1)
        yield harness.current_step, "followed"


async def spender(harness: Scripted) -> Steps:
    """Make steps until the budget is spent."""
    while True:
        await harness.sleep(1.0)
        yield harness.current_step, "spent"


async def live(orchestrator: Orchestrator) -> None:
    """Start them all, and stop the one that waits for ever."""
    for script in (steady, sender, unsure, refused):
        orchestrator.start(Scripted(script, 0), name=script.__name__)
    for script in (hopeless, poisoned):
        orchestrator.start(Scripted(script, 0), name=script.__name__, backoff=STEADY)
    pair = orchestrator.supervisor("pair", strategy="one_for_all")
    for script in (leader, twin):
        orchestrator.start(
            Scripted(script, 0), name=script.__name__, supervisor=pair, backoff=Backoff(base_s=2, factor=1, jitter=0)
        )
    orchestrator.start(Scripted(spender, 0), name="spender", budget=Budget(steps=4))
    waiting = orchestrator.start(Scripted(asking, 0), name="asking")
    await trio.sleep(60)
    waiting.stop()


def record(folder: Path) -> Path:
    """Record the run; return the folder of `SOURCES`."""

    async def run() -> None:
        async with Orchestrator(folder / "run.db", log=folder / "steps.jsonl", handle_signals=False) as orchestrator:
            await live(orchestrator)

    # Two of them give up.
    with suppress(ExceptionGroup):
        trio.run(run, clock=MockClock(autojump_threshold=0))
    return folder


def rows(answer: Answer, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of an answer."""
    return next(one.dicts() for one in answer.tables if one.name == table)


def by_name(answer: Answer, table: str) -> dict[Any, dict[str, Any]]:
    """Return the rows of a table by their harness."""
    return {row["harness"]: row for row in rows(answer, table)}
