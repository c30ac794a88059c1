"""A small store with something in each of its views: what the samples of the page are of."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import trio

from harnesses.agents.model.messages import Message, ModelUsage, Role
from harnesses.agents.model.transcript import ModelRound, Transcript, as_record
from harnesses.budgets.budget import Budget
from harnesses.effects.approval import Action
from orchestrator import Orchestrator
from tests.docs.clock import until, virtual_wall
from tests.orchestrator.scripted import Scripted, Steps

USAGE = ModelUsage(input_tokens=310, output_tokens=24)
TURN = Transcript(
    agent="clerk",
    model="anthropic:claude-sonnet-4-5",
    session="invoices",
    scope="clerk#1/",
    stop_reason="end_turn",
    messages=[Message(role=Role.USER, text="Is invoice 7 in order?"), Message(role=Role.ASSISTANT, text="Yes, send it.")],
    rounds=[ModelRound(model="anthropic:claude-sonnet-4-5", message=1, usage=USAGE, cost=Decimal("0.00129"))],
)


async def send_mail(to: str) -> str:
    """Be an act on the world."""
    await trio.sleep(0.5)
    return f"sent to {to}"


async def script(harness: Scripted) -> Steps:
    """Read a message, send mail with an approval, and be in the middle of spending when the program ends."""
    message = await harness.receive()
    action = Action("mail", "send the invoice", {"to": "ann@example.org"}, expires_s=600)
    harness.update_state(lambda _: {"sent": 1}, summary="one more is sent")
    harness.attach("transcript", as_record(TURN))
    yield message, await harness.once("mail", send_mail, "ann@example.org", approval=action)
    async with harness.spending(tokens=500, money=Decimal("0.25")):
        await harness.sleep(1000)


async def _run(path: Path, copy: Path) -> None:
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        budget = Budget(money=Decimal(2), tokens=5000)
        handle = orchestrator.start(Scripted(script, {"sent": 0}), name="clerk", budget=budget)
        handle.send({"invoice": 7})
        await until(orchestrator.store.approvals)
        await orchestrator.approve(orchestrator.store.approvals()[0].id, by="bob", reason="as agreed")
        await until(lambda: handle.current_step == 1)
        await trio.sleep(1)
        # What is shown is how it stands now: the reservation is open.
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            db.execute("VACUUM INTO ?", (str(copy),))


def record(path: Path, copy: Path) -> None:
    """Record it at `path`, and leave a copy of how it is in the middle of it."""
    with virtual_wall() as clock:
        trio.run(_run, path, copy, clock=clock)
