"""G12: a denial blocks until a person reopens it; then the harness asks anew, and what was said before counts for nothing."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from harnesses.effects.approval import Action, Answer, Case, Request, Use, Word, request_of, signed, stand
from orchestrator import MemoryStore, Orchestrator, OutcomeKind, SqliteStore, Store, UsageError
from orchestrator.store.conformance.conformance_tools import claim
from orchestrator.store.store_operations import ANSWERED, APPROVAL_KINDS, REQUESTED, USED, Ask, Respond, TakeUp
from tests.orchestrator.scripted import Scripted, Steps, events

PUSH = Action("publish", "push main to origin", {"remote": "origin"}, expires_s=1000)
SECRET = b"k" * 32
NOW_US = 1_000_000_000


class World:
    def __init__(self) -> None:
        self.pushed: Counter[str] = Counter()

    async def push(self, branch: str) -> str:
        self.pushed[branch] += 1
        return branch


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request: Any, tmp_path: Path) -> Any:
    made = MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "run.db")
    yield made
    made.close()


def pushing(world: World) -> Any:
    async def script(harness: Scripted) -> Steps:
        yield harness.current_step + 1, await harness.once("push", world.push, "main", approval=PUSH)

    return script


async def asked(store: Store, count: int = 1) -> str:
    """Return the id of the newest request, when there are so many."""
    while len(store.approvals()) < count:  # noqa: ASYNC110 - a store rings for nobody
        await trio.sleep(0.01)
    return store.approvals()[-1].id


async def denied(orchestrator: Orchestrator, world: World, name: str = "one") -> tuple[str, Any]:
    """Return the id of a request that was denied, and how its harness ended."""
    handle = orchestrator.start(Scripted(pushing(world)), name=name)
    id = await asked(orchestrator.store)
    await orchestrator.deny(id, by="ann", reason="not today")
    return id, await handle.wait()


# a denial blocks


async def test_a_denial_that_nobody_handles_blocks_at_once(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        id, outcome = await denied(orchestrator, world)

    assert (outcome.kind, outcome.attempt) == (OutcomeKind.BLOCKED, 1)
    assert "denied by ann: not today" in outcome.cause
    assert f"orchestrator approvals reopen {id}" in outcome.cause
    assert events(store, "one")[-1] == "blocked"
    assert world.pushed == {}


async def test_started_again_with_nothing_changed_it_blocks_again_with_the_same_cause(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        _, first = await denied(orchestrator, world)
        second = await orchestrator.start(Scripted(pushing(world)), name="one").wait()

    assert (second.kind, second.cause, second.attempt) == (OutcomeKind.BLOCKED, first.cause, 2)
    assert len(store.approvals()) == 1


async def test_a_denial_within_a_group_of_errors_blocks_too(store, world, autojump_clock):
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: harness.once("push", world.push, "main", approval=PUSH))
        yield 1, None

    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(script), name="one")
        await orchestrator.deny(await asked(store), by="ann")
        outcome = await handle.wait()

    assert (outcome.kind, outcome.attempt) == (OutcomeKind.BLOCKED, 1)


# reopening


async def test_what_is_reopened_is_asked_anew_and_done_once(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        old, _ = await denied(orchestrator, world)
        assert await orchestrator.reopen(old, by="bob", reason="now it may")
        handle = orchestrator.start(Scripted(pushing(world)), name="one")
        new = await asked(store, 2)
        await trio.sleep(5)
        assert world.pushed == {}
        await orchestrator.approve(new, by="ann")
        outcome = await handle.wait()

    assert old != new
    assert (outcome.kind, world.pushed) == (OutcomeKind.FINISHED, {"main": 1})
    assert [record.kind for record in store.records(limit=1000) if record.kind in APPROVAL_KINDS] == [
        REQUESTED,
        ANSWERED,
        ANSWERED,
        REQUESTED,
        ANSWERED,
        USED,
    ]


async def test_reopening_does_not_start_anything(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        id, _ = await denied(orchestrator, world)
        await orchestrator.reopen(id, by="bob")
        await trio.sleep(100)

        assert (orchestrator.handles[0].attempt, len(store.approvals())) == (1, 1)


async def test_an_approval_that_a_denial_had_beaten_does_not_come_back(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(pushing(world)), name="one")
        id = await asked(store)
        await handle.stop()
        await orchestrator.approve(id, by="ann")
        await orchestrator.deny(id, by="bob")
        await orchestrator.reopen(id, by="bob")
        again = orchestrator.start(Scripted(pushing(world)), name="one")
        await asked(store, 2)
        await trio.sleep(5)

        assert world.pushed == {}
        with pytest.raises(UsageError, match="was reopened by 'bob'"):
            await orchestrator.approve(id, by="ann")
        await again.stop()


async def test_who_still_waits_when_it_is_denied_and_reopened_asks_anew(autojump_clock, world):
    """Both answers come in one commit, before the harness has looked."""
    store = MemoryStore()
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(pushing(world)), name="one")
        id = await asked(store)
        orchestrator.deny(id, by="ann")
        orchestrator.reopen(id, by="ann")
        new = await asked(store, 2)
        await orchestrator.approve(new, by="ann")
        outcome = await handle.wait()

    assert (outcome.kind, world.pushed) == (OutcomeKind.FINISHED, {"main": 1})


async def test_to_reopen_again_changes_nothing(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        id, _ = await denied(orchestrator, world)

        changed = [await orchestrator.reopen(id, by=by) for by in ("bob", "eve")]

    assert changed == [True, False]


async def test_what_cannot_be_reopened_is_refused_with_what_to_do(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(pushing(world), until=1), name="one")
        id = await asked(store)
        with pytest.raises(UsageError, match="no approval request 'nothing'"):
            await orchestrator.reopen("nothing", by="bob")
        with pytest.raises(UsageError, match=f"is pending: .*orchestrator approve {id}"):
            await orchestrator.reopen(id, by="bob")
        with pytest.raises(UsageError, match="by somebody"):
            await orchestrator.reopen(id, by=" ")
        await orchestrator.approve(id, by="ann")
        await handle.wait()
        with pytest.raises(UsageError, match="was used"):
            await orchestrator.reopen(id, by="bob")


async def test_what_is_approved_and_not_used_yet_is_denied_before_it_is_reopened(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(pushing(world)), name="one")
        id = await asked(store)
        await handle.stop()
        await orchestrator.approve(id, by="ann")

        with pytest.raises(UsageError, match=f"approved by 'ann'.*orchestrator deny {id}"):
            await orchestrator.reopen(id, by="bob")


# the records: what they stand for, whatever is done to them


def request(id: str = "a1") -> Request:
    return request_of(id, "one", 1, "push", Action("publish", "push", {"to": "main"}, expires_s=3600), now_us=NOW_US)


def answer(to: Request, verdict: str, at_us: int) -> str:
    return signed(Answer(id=to.id, digest=to.digest, verdict=verdict, by="ann", reason="", answered_us=at_us), SECRET)


def case(verdicts: list[str], *, used: bool = False) -> Case:
    made = request()
    answers = tuple(answer(made, verdict, NOW_US + 1 + place) for place, verdict in enumerate(verdicts))
    uses = (signed(Use(id=made.id, digest=made.digest, used_us=NOW_US + 9), SECRET),) if used else ()
    return Case("one", 1, signed(made, SECRET), answers, uses)


@given(st.lists(st.sampled_from(["approved", "denied", "reopened"]), max_size=5), st.booleans(), st.sampled_from([20, 10**10]))
def test_what_was_reopened_is_never_approved_again(verdicts, used, later_us):
    found = stand(case(verdicts, used=used), SECRET, now_us=NOW_US + later_us)

    if "reopened" in verdicts:
        assert found.word is (Word.INVALID if used else Word.REOPENED)
    assert (found.word is Word.APPROVED) <= ("reopened" not in verdicts)


def test_a_reopening_of_another_request_reopens_nothing():
    other = evolve(request(), id="b2")
    whole = case(["denied"])

    found = stand(evolve(whole, answers=(*whole.answers, answer(other, "reopened", NOW_US + 5))), SECRET, now_us=NOW_US + 9)

    assert found.word is Word.INVALID


def said(id: str, verdict: str) -> Respond:
    return Respond(id, verdict, "ann", "", NOW_US + 5, SECRET)


@pytest.mark.parametrize("seed", range(100))
def test_of_requests_that_are_answered_and_reopened_in_any_order_each_approval_is_used_once(seed: int) -> None:
    rng = random.Random(seed)
    store = MemoryStore()
    claimed = claim(store, "one")
    ids: list[str] = []
    for number in range(30):
        deed = rng.choice(["ask", "take", "approved", "denied", "reopened"])
        if deed == "ask" or not ids:
            asked_id = store.commit((), [Ask(claimed.harness, claimed.epoch, 1, request(f"r{number}"), SECRET)]).results[0].id
            ids = [*ids, asked_id] if asked_id not in ids else ids
        elif deed == "take":
            store.commit((), [TakeUp(claimed.harness, claimed.epoch, 1, 1, rng.choice(ids), NOW_US + 9, SECRET)])
        else:
            store.commit((), [said(rng.choice(ids), deed)])

    bodies = [(record.kind, record.body) for record in store.records(limit=1000) if record.kind in APPROVAL_KINDS]
    for id in ids:
        words = [kind if kind != ANSWERED else verdict_of(body) for kind, body in bodies if f'"id":"{id}"' in body]
        if USED in words:
            before = words[: words.index(USED)]
            assert "approved" in before
            assert not {"denied", "reopened"} & set(words)
            assert words.count(USED) == 1
    # No request is made while another one for the same action can still be answered or used.
    standing = [stand(record.case, SECRET, now_us=NOW_US + 9).word for record in store.approvals()]
    assert all(word is Word.REOPENED for word in standing[:-1])


def verdict_of(body: str) -> str:
    return next(word for word in ("approved", "denied", "reopened") if f'"verdict":"{word}"' in body)


def test_what_was_asked_anew_already_is_not_reopened(tmp_path: Path) -> None:
    """Else the older one would stand in the way of what was approved since."""
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        claimed = claim(store, "one")
        late_us = NOW_US + 3_700_000_000
        action = Action("publish", "push", {"to": "main"}, expires_s=3600)
        for id, at_us in (("old", NOW_US), ("new", late_us)):
            wanted = request_of(id, "one", 1, "push", action, now_us=at_us)
            store.commit((), [Ask(claimed.harness, claimed.epoch, 1, wanted, SECRET)])

        refused = store.commit((), [Respond("old", "reopened", "ann", "", late_us, SECRET)]).results[0]

    assert isinstance(refused, UsageError)
    assert "'new'" in str(refused)


@pytest.mark.parametrize(
    ("tamper", "word"),
    [
        ("DELETE FROM records WHERE body ->> '$.verdict' = 'reopened'", Word.INVALID),
        ("UPDATE records SET body = replace(body, 'reopened', 'approved') WHERE kind = 'approval_answered'", Word.INVALID),
        ("UPDATE records SET body = replace(body, 'bob', 'eve') WHERE body ->> '$.verdict' = 'reopened'", Word.INVALID),
        ("UPDATE records SET step = 2 WHERE body ->> '$.verdict' = 'reopened'", Word.INVALID),
        (
            "DELETE FROM approval_index WHERE seq IN (SELECT seq FROM records WHERE body ->> '$.verdict' = 'reopened')",
            Word.REOPENED,
        ),
    ],
)
def test_a_reopening_that_was_tampered_with_lets_nothing_pass(tmp_path: Path, tamper: str, word: Word) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        claimed = claim(store, "one")
        store.commit((), [Ask(claimed.harness, claimed.epoch, 1, request("a1"), SECRET)])
        for verdict, by in (("approved", "ann"), ("denied", "ann"), ("reopened", "bob")):
            store.commit((), [Respond("a1", verdict, by, "", NOW_US + 5, SECRET)])
        store._db.execute(tamper)  # pyright: ignore[reportPrivateUsage]

        taken = store.commit((), [TakeUp(claimed.harness, claimed.epoch, 1, 1, "a1", NOW_US + 9, SECRET)]).results[0]

    assert taken.standing.word is word


def edited(record: str, **fields: Any) -> str:
    """Return a record with other fields under its old signature."""
    return json.dumps({**json.loads(record), **fields})


def forgeries() -> dict[str, Case]:
    """Return cases in which a reopening is forged, or an approval replayed, by who has the records and not the secret."""
    denied = case(["approved", "denied"])
    approval, denial = denied.answers
    twin = answer(request("a2"), "reopened", NOW_US + 5)
    unsigned = Answer(id="a1", digest=request().digest, verdict="reopened", by="ann", reason="", answered_us=NOW_US + 5)
    added = {
        "the signature of the denial": edited(denial, verdict="reopened", answered_us=NOW_US + 5),
        "no signature": edited(signed(unsigned, SECRET), mac=""),
        "another secret": signed(unsigned, b"x" * 32),
        "of another request": twin,
        "of another request, renamed": edited(twin, id="a1"),
    }
    anew = Case("one", 1, signed(request("a3"), SECRET), (), ())
    return {
        **{kind: evolve(denied, answers=(*denied.answers, record)) for kind, record in added.items()},
        "the old approval of what is asked anew": evolve(anew, answers=(approval,)),
        "the old approval, renamed": evolve(anew, answers=(edited(approval, id="a3"),)),
    }


@pytest.mark.parametrize("kind", list(forgeries()))
def test_a_forged_reopening_and_a_replayed_approval_are_found(kind: str) -> None:
    assert stand(forgeries()[kind], SECRET, now_us=NOW_US + 9).word is Word.INVALID


def test_an_approval_replayed_after_the_reopening_lets_nothing_pass() -> None:
    reopened = case(["approved", "denied", "reopened"])

    replayed = evolve(reopened, answers=(*reopened.answers, reopened.answers[0]))

    assert stand(replayed, SECRET, now_us=NOW_US + 9).word in (Word.INVALID, Word.REOPENED)
