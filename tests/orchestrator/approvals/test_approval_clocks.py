"""G12: clocks that are set, or differ, make no genuine approval suspect, and let none pass whose time is over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.effects.approval import (
    CLOCK_TOLERANCE_S,
    Action,
    Answer,
    Case,
    Request,
    Use,
    Word,
    read,
    request_of,
    signed,
    stand,
)
from harnesses.timing.clock import Ticks, WallClock, read_ticks
from orchestrator import MemoryStore, Orchestrator, SqliteStore, Store
from orchestrator.operating.approval_answers import respond
from orchestrator.store.conformance.conformance_tools import claim
from orchestrator.store.rules.approval_rules import Filed, case_of
from orchestrator.store.store_operations import ANSWERED, REQUESTED, USED, Ask, Respond, Taken, TakeUp
from tests.orchestrator.scripted import Scripted, Steps

SECRET = b"k" * 32
NOW_US = 1_790_000_000_000_000
MINUTE_US, HOUR_US, DAY_US = 60_000_000, 3_600_000_000, 86_400_000_000
AT = Ticks("a boot", 5 * DAY_US)


def request(ticks: Ticks | None = AT) -> Request:
    action = Action("publish", "push", {"to": "main"}, expires_s=3600)
    return request_of("a1", "one", 1, "push", action, now_us=NOW_US, ticks=ticks)


def answer(verdict: str = "approved", after_us: int = MINUTE_US) -> Answer:
    return Answer(id="a1", digest=request().digest, verdict=verdict, by="ann", reason="", answered_us=NOW_US + after_us)


def word(made: Request, *answers: Answer, set_us: int, passed_us: int = MINUTE_US, era: str = AT.era) -> Word:
    """Return where a request stands after so long, by a wall clock that was set by so much since."""
    case = Case("one", 1, signed(made, SECRET), tuple(signed(one, SECRET) for one in answers))
    ticks = Ticks(era, AT.us + passed_us)
    return stand(case, SECRET, now_us=NOW_US + passed_us + set_us, ticks=ticks).word


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with closing(MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "run.db")) as made:
        yield made


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([None, AT]), st.integers(-(10**16), 10**16), st.integers(-(10**16), 10**16), st.integers(0, 10**15))
def test_no_clock_makes_a_genuine_record_suspect(ticks: Ticks | None, asked_us: int, said_us: int, passed_us: int) -> None:
    made = request(ticks)

    assert word(made, answer(after_us=said_us), set_us=asked_us, passed_us=passed_us) is not Word.INVALID


@pytest.mark.parametrize("said_us", [-2 * MINUTE_US, -DAY_US, 0])
@pytest.mark.parametrize("set_us", [-DAY_US, -2 * MINUTE_US, 0, 2 * MINUTE_US])
def test_while_the_machine_runs_a_clock_that_is_set_costs_no_approval(said_us: int, set_us: int) -> None:
    assert word(request(), answer(after_us=said_us), set_us=set_us) is Word.APPROVED


@pytest.mark.parametrize("verdict", ["approved", "denied"])
@pytest.mark.parametrize("set_us", [-10 * 365 * DAY_US, -DAY_US, -HOUR_US, 0, HOUR_US])
def test_while_the_machine_runs_a_clock_that_is_set_back_prolongs_nothing(verdict: str, set_us: int) -> None:
    found = word(request(), answer(verdict), set_us=set_us, passed_us=HOUR_US)

    assert found is {"approved": Word.EXPIRED, "denied": Word.DENIED}[verdict]


def test_the_wall_clock_tells_of_the_time_for_which_a_machine_was_stopped_whole() -> None:
    edge = int(CLOCK_TOLERANCE_S * 1e6) + HOUR_US - MINUTE_US

    assert word(request(), answer(), set_us=edge) is Word.EXPIRED
    assert word(request(), answer(), set_us=edge - 1) is Word.APPROVED


@pytest.mark.parametrize(("made", "era"), [(request(), "another boot"), (request(None), AT.era)], ids=["boot", "no ticks"])
@pytest.mark.parametrize(
    ("set_us", "expected"),
    [
        (-2 * MINUTE_US, Word.APPROVED),
        (-HOUR_US - MINUTE_US, Word.APPROVED),
        (-HOUR_US - MINUTE_US - 1, Word.EXPIRED),
        (-DAY_US, Word.EXPIRED),
        (HOUR_US - MINUTE_US, Word.EXPIRED),
        (HOUR_US - MINUTE_US - 1, Word.APPROVED),
    ],
)
def test_of_another_boot_the_wall_clock_tells_within_the_tolerance(
    made: Request, era: str, set_us: int, expected: Word
) -> None:
    assert word(made, answer(), set_us=set_us, era=era) is expected


def test_an_approval_long_after_the_end_counts_for_nothing_and_is_no_forgery() -> None:
    assert word(request(), answer(after_us=3 * HOUR_US), set_us=0) is Word.EXPIRED


def test_a_request_of_an_earlier_version_is_read_and_nobody_can_give_it_ticks() -> None:
    body = signed(request(None), SECRET)

    assert "ticks" not in body
    assert read(Request, body, SECRET) == read(Request, signed(request(None), SECRET), SECRET)
    with pytest.raises(ValueError, match="genuine"):
        read(Request, body.replace(',"mac"', ',"era":"a boot","ticks_us":9000000000000000,"mac"'), SECRET)


def test_a_request_cannot_be_rid_of_its_ticks() -> None:
    body = signed(request(), SECRET)
    without = body.replace(f',"era":"{AT.era}","ticks_us":{AT.us}', "")

    assert without != body
    with pytest.raises(ValueError, match="genuine"):
        read(Request, without, SECRET)


@pytest.mark.parametrize(
    "kinds",
    [(ANSWERED, REQUESTED), (REQUESTED, USED, ANSWERED), (REQUESTED, ANSWERED, USED, ANSWERED), (REQUESTED, REQUESTED)],
)
def test_the_order_of_the_records_tells_what_came_first(kinds: tuple[str, ...]) -> None:
    """An answer before its request, a use before an answer, and so on, whatever their clocks say."""
    use = Use(id="a1", digest=request().digest, used_us=NOW_US + 2 * MINUTE_US)
    bodies = {REQUESTED: signed(request(), SECRET), ANSWERED: signed(answer(), SECRET), USED: signed(use, SECRET)}

    case = case_of([Filed(kind, 1, "one", 1, bodies[kind]) for kind in kinds])

    assert stand(case, SECRET, now_us=NOW_US, ticks=AT).word is Word.INVALID


def test_a_desk_counts_by_ticks(store: Store) -> None:
    claimed = claim(store, "one")
    at = (claimed.harness, claimed.epoch, 1)
    later = Ticks(AT.era, AT.us + 59 * MINUTE_US)
    store.commit((), [Ask(*at, request(), SECRET)])
    early_us = NOW_US - DAY_US
    (pending,) = store.commit((), [TakeUp(*at, 1, "a1", early_us, SECRET, later)]).results
    store.commit((), [Respond("a1", "approved", "ann", "", early_us, SECRET, later)])
    over = Ticks(AT.era, AT.us + HOUR_US)
    (expired,) = store.commit((), [TakeUp(*at, 1, "a1", early_us, SECRET, over)]).results
    (taken,) = store.commit((), [TakeUp(*at, 1, "a1", early_us, SECRET, later)]).results

    assert isinstance(pending, Taken)
    assert (pending.standing.word, pending.left_us) == (Word.PENDING, MINUTE_US)
    assert (expired.standing.word, taken.standing.word) == (Word.EXPIRED, Word.APPROVED)


@pytest.mark.parametrize("ahead_s", [120.0, -120.0, 3000.0])
async def test_a_program_whose_clock_differs_takes_up_what_was_approved(tmp_path: Path, ahead_s: float) -> None:
    """Real time: the answer comes from another connection, by the machine's clock, as from `orchestrator approve`."""

    async def script(harness: Scripted) -> Steps:
        yield 1, (await harness.approval("go", "deploy")).by

    path = tmp_path / "run.db"
    with trio.fail_after(20):
        async with Orchestrator(path, clock=lambda: time.time() + ahead_s) as orchestrator:
            orchestrator.start(Scripted(script), name="one")
            while not (asked := orchestrator.store.approvals()):  # noqa: ASYNC110 - a store rings for nobody
                await trio.sleep(0.01)
            await trio.to_thread.run_sync(lambda: respond(str(path), asked[0].id, "approved", by="ann", reason=""))

    with closing(SqliteStore(path)) as after:
        assert after.steps("one")[0].output == "ann"


def test_ticks_only_go_up_and_are_those_of_the_whole_machine() -> None:
    first, second = read_ticks(), read_ticks()

    assert first.era == second.era
    assert first.us <= second.us


async def test_a_clock_of_ones_own_has_no_ticks(autojump_clock: object) -> None:
    assert (WallClock(time.time).ticks(), WallClock().ticks()) == (None, None)
