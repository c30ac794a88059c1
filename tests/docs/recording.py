"""The run that the pages are about: three minutes of seven harnesses, each with something of its own to tell.

trading      trades two symbols on paper, a day a second
features     has four features made; one passes at its second try, one is set back
flaky        crashes four times
publisher    publishes, each time with a person's approval, through a service that breaks off
listener     reads its mail, slower than it comes
stuck        says the same again and again
spender      spends from a budget
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import partial
from pathlib import Path

import trio
from attrs import frozen

from harnesses import Agent
from harnesses.budgets.budget import Budget
from harnesses.effects.approval import Action
from harnesses.errors import Refused
from harnesses.features import FeatureHarness, TurnResult
from orchestrator import Backoff, Handle, Orchestrator
from tests.docs.clock import SlowDisk, until, virtual_wall
from tests.harnesses.features.worked import Judge, features, harness
from tests.orchestrator.analysis.figured import trading
from tests.orchestrator.scripted import Scripted, Steps


@frozen
class Seen:
    """The state of those who count."""

    count: int = 0
    last: str = ""


def see(what: str, seen: Seen) -> Seen:
    """Return what is seen when there is one more."""
    return Seen(seen.count + 1, what)


def feature_work() -> FeatureHarness:
    """Return a harness that has a, b, c and d made: b passes at its second try, a is set back once."""

    async def work(run: object) -> TurnResult:
        given = run.input  # type: ignore[attr-defined]
        await trio.sleep(6 + 4 * given.turn + 3 * "abcd".index(given.feature.id))
        return TurnResult(message=f"made {given.feature.id}", artifact=str(given.turn), tokens=1200 * given.turn)

    judge = Judge(rotten={"a": 1}, seconds=2.0, b=2)
    return harness(Agent(work, name="maker"), judge, list=features("abcd"))


async def flaky(scripted: Scripted) -> Steps:
    """Make steps, and crash after the third, the sixth, the seventh and the tenth: once in each of its lives."""
    while scripted.current_step < 14:
        number = scripted.current_step + 1
        scripted.update_state(partial(see, f"part {number}"))
        scripted.log(f"GET /part/{number} 200", source="stdout")
        scripted.attach("evidence", {"part": number, "checksum": f"{number * 7919:08x}"})
        yield {"part": number}, {"status": "fetched", "bytes": number * 100}
        await scripted.sleep(4 + number % 3)
        if scripted.current_step in (3, 6, 7, 10) and scripted.current_step not in scripted.ran:
            scripted.ran.append(scripted.current_step)  # type: ignore[arg-type]
            await scripted.sleep(1)
            raise ConnectionError("the far end has hung up") if number != 7 else TimeoutError("no answer within 30 s")


class Service:
    """Where things are published. It breaks off at the second try of the third, and refuses the fourth."""

    def __init__(self) -> None:
        self.tries = 0

    async def publish(self, what: str) -> str:
        self.tries += 1
        await trio.sleep(1.5 + self.tries * 0.5)
        if self.tries in (3, 4):
            raise ConnectionError("connection reset")
        if what == "notes 4":
            raise Refused("there is one of that name already")
        return f"https://example.org/{what.replace(' ', '-')}"


CATEGORIES = ("publish", "publish", "delete", "publish", "delete")


async def publisher(service: Service, scripted: Scripted) -> Steps:
    """Publish five things, each with an approval."""
    while scripted.current_step < 5:
        number = scripted.current_step + 1
        what = f"notes {number}"
        category = CATEGORIES[number - 1]
        action = Action(category, f"{category} {what}", {"what": what}, expires_s=3600)
        try:
            link = await scripted.once("publish", service.publish, what, idempotent=True, approval=action)
        except Refused as error:
            link = f"not done: {error}"
        yield {"what": what}, {"link": link}
        await scripted.sleep(3)


async def listener(scripted: Scripted) -> Steps:
    """Make a step of each message, and rest after it."""
    while scripted.current_step < 8:
        message = await scripted.receive()
        scripted.update_state(partial(see, str(message["about"])))
        yield message, {"heard": message["about"]}
        await scripted.sleep(11)


async def stuck(scripted: Scripted) -> Steps:
    """Say the same again and again, and something else now and then."""
    while scripted.current_step < 20:
        number = scripted.current_step + 1
        yield {"look": number}, {"found": "nothing"} if number % 9 else {"found": "a trace", "at": number}
        await scripted.sleep(9.5)


async def spender(scripted: Scripted) -> Steps:
    """Spend some of what was reserved in each of six steps."""
    while scripted.current_step < 6:
        number = scripted.current_step + 1
        async with scripted.spending(tokens=1000, money=Decimal("0.50")) as spend:
            await scripted.sleep(2)
            spend.settle(tokens=150 * number, money=Decimal("0.05") * number)
        yield {"question": number}, {"answer": number * number}
        await scripted.sleep(20)


async def operate(orchestrator: Orchestrator, listening: Handle) -> None:
    """Answer what is asked, some of it late; send mail."""

    async def answer() -> None:
        for number, (wait_s, verdict) in enumerate(((4, "yes"), (31, "yes"), (12, "yes"), (3, "yes"), (58, "no"))):
            await until(lambda wanted=number: len(orchestrator.store.approvals()) > wanted)
            await trio.sleep(wait_s)
            id = orchestrator.store.approvals()[-1].id
            say = orchestrator.approve if verdict == "yes" else orchestrator.deny
            await say(id, by="ann" if number % 2 else "bob", reason="" if verdict == "yes" else "keep it")

    async def send() -> None:
        for number in range(9):
            listening.send({"about": f"case {number + 1}", "urgent": number % 3 == 0})
            await trio.sleep(5 + number % 2 * 4)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        nursery.start_soon(send)


async def _run(store: SlowDisk, log: Path) -> None:
    steady = Backoff(base_s=3, factor=2, jitter=0)
    async with Orchestrator(store, log=log, handle_signals=False, backoff=steady) as orchestrator:
        begun = (
            ("trading", trading(48), {}),
            ("features", feature_work(), {}),
            ("flaky", Scripted(flaky, Seen(), until=14), {}),
            ("publisher", Scripted(partial(publisher, Service()), until=5), {}),
            ("listener", Scripted(listener, Seen()), {}),
            ("stuck", Scripted(stuck, until=20), {}),
            ("spender", Scripted(spender, until=6), {"budget": Budget(money=Decimal(5), tokens=10_000)}),
        )
        handles = {}
        for name, one, options in begun:
            handles[name] = orchestrator.start(one, name=name, **options)
            # Not at the same moment: which of two comes first is left to chance.
            await trio.sleep(0.13)
        await operate(orchestrator, handles["listener"])
        await trio.sleep(60)
        orchestrator.stop()


def record(log: Path) -> None:
    """Record it into a log. What differs from time to time in it, and from machine to machine, is given other names."""
    with virtual_wall() as clock:
        trio.run(_run, SlowDisk(clock), log, clock=clock)
    log.write_text(_nameless(log.read_text(encoding="utf-8")), encoding="utf-8")


def _nameless(text: str) -> str:
    """Return a log with the run, the ids of approvals and their seals called something fixed, and paths made short."""
    text = re.sub(r'"run":"[0-9a-f]{12}"', '"run":"4f2a90c1d7e3"', text)
    for number, id in enumerate(dict.fromkeys(re.findall(r'"id":"([0-9a-f]{10})"', text)), 1):
        text = text.replace(id, f"ap{number:08d}")
    text = re.sub(r'("(?:seal|signature|mac|nonce)":")[0-9a-f]+', r"\g<1>0", text)
    return re.sub(r'File \\"[^"]*?/(?=(?:harnesses|orchestrator|tests|trio|outcome)/)', 'File \\\\"', text)
