"""A run that has a marker wherever an agent, a program or a market may write, and harnesses in every kind of trouble."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import trio
from attrs import evolve

from harnesses import Budget
from harnesses.agents.model.messages import Message, Role
from harnesses.agents.model.transcript import as_record
from harnesses.effects.approval import Action
from harnesses.errors import NotReady, Refused
from orchestrator import Orchestrator
from orchestrator.operating.kill_switch_orders import turn
from tests.docs.clock import until
from tests.docs.small_store import TURN
from tests.orchestrator.operated import doubtful
from tests.orchestrator.scripted import Scripted, Steps

MARK = "MARKED-7"
"""What agents wrote: it reads like a name, so that only where it stands tells that it is content."""


async def act(text: str) -> str:
    return MARK


async def refuse(text: str) -> str:
    raise Refused(MARK)


async def write(harness: Scripted) -> Steps:
    """Write the marker in every way there is, then end in doubt."""
    said = [Message(role=Role.USER, text=MARK), Message(role=Role.ASSISTANT, text=f"{MARK} again")]
    for _ in range(3):
        harness.update_state(lambda _: {MARK: MARK, "count": MARK}, summary=MARK)
        harness.log(MARK, source="agent")
        harness.attach("transcript", as_record(evolve(TURN, messages=said, error=MARK, session=MARK, work=MARK)))
        message = await harness.receive()
        if harness.current_step == 0:
            action = Action("mail", MARK, {"to": MARK})
            yield [message, MARK], await harness.once("mail", act, MARK, approval=action)
        yield {MARK: MARK}, {"said": MARK}
    with suppress(Refused):
        await harness.once("unwanted", refuse, MARK)
    async with harness.spending(tokens=5):
        await harness.once("order/1", doubtful, MARK)
    yield 1, 1


async def crash(harness: Scripted) -> Steps:
    yield MARK, MARK
    raise ValueError(MARK)


async def block(harness: Scripted) -> Steps:
    yield MARK, MARK
    raise NotReady(f"{MARK} is not installed: install it")


async def ask(harness: Scripted) -> Steps:
    await harness.approval("move", Action("money", MARK, {"amount": MARK}))
    yield 1, 1


def script(name: str) -> Any:
    return {"writing": write, "crashing": crash, "blocked": block, "asking": ask}[name]


async def _run(path: Path) -> None:
    with suppress(ExceptionGroup):
        async with Orchestrator(path, intensity=1, handle_signals=False) as orchestrator:
            handles = {
                name: orchestrator.start(Scripted(script(name), {"count": MARK}), name=name, budget=Budget(tokens=10))
                for name in ("writing", "crashing", "blocked", "asking")
            }
            for _ in range(4):
                handles["writing"].send({"text": MARK})
            await until(lambda: len(orchestrator.store.approvals()) == 2)
            (mail,) = (one for one in orchestrator.store.approvals() if one.harness == "writing")
            await orchestrator.approve(mail.id, by="ann", reason=MARK)
            for name in ("writing", "crashing", "blocked"):
                await handles[name].wait()
            await handles["asking"].stop()


def record(path: Path) -> None:
    """Record it."""
    trio.run(_run, path)
    turn(str(path), None, on=True, reason=MARK)
