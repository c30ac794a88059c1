"""Pruning takes away what is old and nothing that is needed again, and what is left is proven as before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.effects.effect import EffectOutcome
from orchestrator.errors import StoreCorrupt, UnknownHarness, UsageError
from orchestrator.events import Completed, Failed, Started, Stopped
from orchestrator.history.forking import fork
from orchestrator.lifecycle import Status
from orchestrator.records import LIMITS_SET
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import TIME_US, claim, event_row, intent_row, numbers, step_row
from orchestrator.store.conformance.conformance_tools import attached_row, do, outcome_row, output_row
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import Proof, prove
from orchestrator.store.pruning import prune_survey as pruning_survey
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune, survey
from orchestrator.store.store_operations import REQUEST
from orchestrator.store.store_protocol import ConsumedRow, Post, Remark
from tests.orchestrator.store.pruning_runs import copy_store, make_run, states, told
from tests.tampering.proof import judge


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def ask(path: Path, question: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(question).fetchall()


def tell(path: Path, *orders: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for order in orders:
            db.execute(order)


def made(path: Path, steps: int = 200, *, name: str = "one", every: int = 10, end: bool = True) -> None:
    """Make a harness with so many steps, and a snapshot every ten of them."""
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, name)
        for number in range(1, steps + 1):
            saved = f'{{"total":{number}}}' if number % every == 0 else None
            store.commit([step_row(claimed, number, state=saved)])
        if end:
            do(store, event_row(claimed, Completed(), Status.COMPLETED, step=steps, release=True))


def proof_of(path: Path) -> Proof:
    """Return the deep proof; both verifiers must say the same."""
    proof, alone = judge(path)
    assert (list(proof.findings), alone) == ([], [])
    return prove(path, head_path(path).read_text(), deep=True)


def kept(path: Path, name: str = "one") -> list[int]:
    with closing(SqliteReader(path)) as reader:
        return [record.step_number for record in reader.steps(name, limit=10**6)]


def test_the_last_steps_stay_from_a_snapshot_on(path: Path) -> None:
    made(path)

    pruned = prune(path, Rule(keep=45), by="ann")

    assert kept(path) == list(range(150, 201))
    assert (pruned.steps, pruned.floors[0].first) == ({1: 149}, 150)
    assert proof_of(path).findings == []


def test_what_is_older_than_a_moment_goes(path: Path) -> None:
    made(path)

    prune(path, Rule(since_us=TIME_US + 173), by="ann")

    assert kept(path) == list(range(170, 201))


@pytest.mark.parametrize("slow", [range(90, 111), range(40, 60), range(190, 200)])
def test_a_clock_that_was_set_back_for_a_while_takes_no_young_step_away(path: Path, slow: range) -> None:
    """All 200 are young but those during which the clock was a year behind."""
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        for number in range(1, 201):
            row = step_row(claimed, number, state=f'{{"total":{number}}}' if number % 10 == 0 else None)
            store.commit([row._replace(time_us=row.time_us - (10**13 if number in slow else 0))])

    prune(path, Rule(since_us=TIME_US), by="ann")

    assert kept(path) == list(range(1, 201))


def test_the_last_step_of_a_harness_stays_however_old_it_is(path: Path) -> None:
    made(path, steps=205)

    prune(path, Rule(since_us=TIME_US + 10**9), by="ann")

    assert kept(path) == list(range(200, 206))
    with closing(SqliteStore(path)) as store:
        assert claim(store, "one").step == 205


def test_a_harness_that_can_go_on_keeps_what_it_may_look_back_at(path: Path) -> None:
    made(path, end=False)

    prune(path, Rule(keep=1), by="ann")
    assert kept(path)[0] == 100
    prune(path, Rule(keep=1, context=5), by="ann")
    assert kept(path)[0] == 190


def test_a_prune_that_is_refused_leaves_the_file_to_others_at_once(path: Path) -> None:
    made(path)
    tell(path, "UPDATE records SET body = '{}' WHERE seq = 50", "PRAGMA journal_mode = DELETE")

    # What was raised is kept, and with it all that was at work then.
    with pytest.raises(StoreCorrupt) as refused:
        prune(path, Rule(keep=10), by="ann")

    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
    assert refused.value.__traceback__ is not None


def test_only_the_harnesses_that_are_named_are_pruned(path: Path) -> None:
    made(path)
    made(path, name="two")

    prune(path, Rule(keep=10), ["two"], by="ann")

    assert (kept(path, "one"), kept(path, "two")) == (list(range(1, 201)), list(range(190, 201)))
    assert proof_of(path).findings == []


def test_a_name_that_is_not_there_is_an_error(path: Path) -> None:
    made(path)

    with pytest.raises(UnknownHarness, match="no harness 'two'"):
        prune(path, Rule(keep=10), ["two"], by="ann")


@pytest.mark.parametrize("rule", [{}, {"keep": 0}, {"keep": 1, "since_us": 1}, {"keep": 1, "context": -1}])
def test_a_rule_that_can_not_be_is_refused(rule: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        Rule(**rule)


def test_a_survey_says_what_would_go_and_writes_nothing(path: Path) -> None:
    made(path)
    before = path.read_bytes()

    would = survey(path, Rule(keep=45))

    assert path.read_bytes() == before
    gone = prune(path, Rule(keep=45), by="ann")
    assert (would.steps, would.records, would.bytes, would.kept) == (gone.steps, gone.records, gone.bytes, gone.kept)


def test_pruning_again_changes_nothing(path: Path) -> None:
    made(path)
    prune(path, Rule(keep=45), by="ann")
    before = path.read_bytes()

    again = prune(path, Rule(keep=45), by="ann")

    assert (path.read_bytes() == before, sum(again.records.values())) == (True, 0)


def test_a_store_verifies_however_often_it_is_pruned_and_run_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if what an earlier prune has left fills a commit of the next one, and the last of it is where the chain begins."""
    for lap, portion in enumerate((40, 15, 40, 15)):
        monkeypatch.setattr(pruning_survey, "PORTION", portion)
        with closing(SqliteStore(path)) as store:
            claimed = claim(store, "one", take_over=True)
            for step in range(60 * lap + 1, 60 * lap + 61):
                do(store, Post("one", "x", TIME_US, "1"))  # waits, and so stays
                store.commit([step_row(claimed, step, state=f'{{"total":{step}}}')])

        prune(path, Rule(keep=5, context=0), by="ann")

        assert proof_of(path).findings == []
        assert kept(path)[0] == 60 * lap + 56


def test_numbers_are_never_used_anew(path: Path) -> None:
    made(path, end=False)
    newest = ask(path, "SELECT max(seq) FROM records")[0][0]

    prune(path, Rule(keep=1, context=0), by="ann")
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one", take_over=True)
        committed = store.commit([step_row(claimed, 201)])

    assert (claimed.step, committed.seqs[0] > newest) == (200, True)


def test_who_prunes_what_is_on_record(path: Path) -> None:
    made(path)

    prune(path, Rule(keep=45), by="ann")

    proof = proof_of(path)
    with closing(SqliteReader(path)) as reader:
        (record,) = [record for record in reader.records(limit=10**6) if record.kind == "pruned"]
    assert record.body == '{"by":"ann","keep":45,"context":100,"first":{"one":150}}'
    assert (proof.pruned.by, proof.pruned.last_seq >= 149) == ("ann", True)
    assert "pruned, last at" in proof.notices[0]


def test_a_step_that_is_gone_is_said_to_be_so(path: Path) -> None:
    made(path)
    prune(path, Rule(keep=45), by="ann")

    with closing(SqliteReader(path)) as reader:
        with pytest.raises(UsageError, match="step 3 was pruned: expected a number from 150"):
            reader.state_at("one", 3)
        assert reader.state_at("one", 0) == '{"total":0}'


def test_a_message_that_waits_stays_and_one_that_was_used_up_goes_with_its_step(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        seqs = [do(store, Post("one", "x", TIME_US, str(number))) for number in range(3)]
        for number in range(1, 41):
            used = {5: seqs[0], 35: seqs[1]}.get(number)
            saved = f'{{"total":{number}}}' if number % 10 == 0 else None
            consumed = [ConsumedRow(used, claimed.harness, number)] if used else []
            store.commit([step_row(claimed, number, state=saved)], consumed=consumed)

    prune(path, Rule(keep=10, context=0), by="ann")

    assert ask(path, "SELECT seq FROM mailbox ORDER BY seq") == [(seqs[1],), (seqs[2],)]
    assert ask(path, f"SELECT seq FROM records WHERE seq <= {seqs[2]} AND kind = 'message'") == [(seqs[1],), (seqs[2],)]
    assert proof_of(path).findings == []


def test_a_question_that_may_be_asked_again_stays_and_is_not_put_in_the_mailbox_twice(path: Path) -> None:
    """A step that was cut off asks again under the same id, however much who was asked has done meanwhile."""
    with closing(SqliteStore(path)) as store:
        asker, asked = claim(store, "asker"), claim(store, "asked")
        store.commit([step_row(asker, 1)])
        posts = [Post("asked", "asker", TIME_US, "1", f"asker/{step}/a.1", REQUEST) for step in (1, 2)]
        used = dict(zip((5, 6), [do(store, post) for post in posts], strict=True))
        for number in range(1, 41):
            consumed = [ConsumedRow(used[number], asked.harness, number)] if number in used else []
            store.commit([step_row(asked, number, state=f'{{"total":{number}}}')], consumed=consumed)

    prune(path, Rule(keep=10, context=0), by="ann")

    with closing(SqliteStore(path)) as store:
        assert do(store, posts[1]) == used[6]
    assert ask(path, "SELECT seq, consumed_step FROM mailbox") == [(used[6], 6)]
    assert proof_of(path).findings == []


def test_what_belongs_to_a_step_goes_and_stays_with_it(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        for number in range(1, 41):
            bought = outcome_row(claimed, number, "buy", EffectOutcome.CONFIRMED)
            store.commit([], effects=[intent_row(claimed, number, "buy"), bought, output_row(claimed, number, "hello")])
            saved = f'{{"total":{number}}}' if number % 10 == 0 else None
            store.commit([step_row(claimed, number, state=saved)], effects=[attached_row(claimed, number, "evidence")])

    prune(path, Rule(keep=10, context=0), by="ann")

    for kind in ("step", "intent", "outcome", "output", "evidence"):
        steps = ask(path, f"SELECT step FROM records WHERE kind = '{kind}' ORDER BY seq")
        assert [step for (step,) in steps] == list(range(30, 41))


def test_the_last_lifecycle_event_of_a_harness_stays(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        do(store, event_row(claimed, Stopped("early"), Status.STOPPED))
        for number in range(1, 41):
            store.commit([step_row(claimed, number, state=f'{{"total":{number}}}')])

    prune(path, Rule(keep=1, context=0), by="ann")

    assert ask(path, "SELECT seq, kind FROM records WHERE kind = 'stopped'") == [(1, "stopped")]
    assert proof_of(path).findings == []


def test_what_a_harness_that_never_got_far_has_left_goes_by_its_age(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        for number in range(20):
            event = event_row(claimed, Failed("E", f"crash {number}"), Status.FAILED)
            do(store, evolve(event, time_us=TIME_US + number))

    prune(path, Rule(since_us=TIME_US + 15), by="ann")
    assert [seq for (seq,) in ask(path, "SELECT seq FROM records WHERE kind = 'failed'")] == [16, 17, 18, 19, 20]
    prune(path, Rule(since_us=TIME_US + 1000), by="ann")

    assert ask(path, "SELECT seq, kind FROM records") == [(20, "failed"), (21, "pruned"), (22, "pruned")]
    assert proof_of(path).findings == []


def test_a_seal_that_does_not_fit_stops_it_before_anything_of_it_goes(path: Path) -> None:
    made(path)
    tell(path, "UPDATE records SET time_us = time_us + 1 WHERE seq = 7")

    for act in (lambda: survey(path, Rule(keep=45)), lambda: prune(path, Rule(keep=45), by="ann")):
        with pytest.raises(StoreCorrupt, match="do not match their seal"):
            act()
    assert kept(path) == list(range(1, 201))


def test_what_has_stayed_is_not_made_to_look_genuine_by_pruning_again(path: Path) -> None:
    made(path)
    prune(path, Rule(keep=100), by="ann")
    tell(path, "UPDATE records SET body = replace(body, ':', ': ') WHERE step = 120")

    with pytest.raises(StoreCorrupt, match="do not match their seal"):
        prune(path, Rule(keep=10), by="ann")

    proof = prove(path, head_path(path).read_text())
    assert [(finding.what, finding.step) for finding in proof.findings] == [("edited", 120)]


@pytest.mark.parametrize(
    ("order", "what"),
    [
        ("UPDATE records SET body = body || ' ' WHERE step = 151", "edited"),
        ("DELETE FROM records WHERE step = 151", "dropped"),
        (
            "INSERT INTO records (seq, harness, epoch, attempt, step, time_us, body, kind) VALUES (3,1,1,1,0,1,'{}','x')",
            "inserted",
        ),
        ("UPDATE harnesses SET initial_state = '{}'", "edited"),
        ("UPDATE seals SET first_seq = 0 WHERE position = (SELECT min(position) FROM seals)", "edited"),
    ],
)
def test_what_is_done_to_what_has_stayed_is_found(path: Path, order: str, what: str) -> None:
    made(path)
    prune(path, Rule(keep=45), by="ann")

    tell(path, order)

    proof, alone = judge(path)
    assert (proof.findings[0].what, alone[0][1]) == (what, what)


def test_a_head_from_before_is_not_known_and_one_from_after_is(path: Path) -> None:
    made(path, name="zero", steps=1)
    before = head_path(path).read_text()
    made(path)
    prune(path, Rule(keep=45), by="ann")
    after = head_path(path).read_text()
    with closing(SqliteStore(path, seal_every_s=0)) as store:
        claim(store, "two")

    (finding,) = prove(path, before).findings
    assert (finding.where, "from before the store was pruned" in finding.text) == ("head", True)
    assert prove(path, after).findings == []


def test_a_store_that_is_written_to_meanwhile_is_pruned_all_the_same(path: Path) -> None:
    made(path, end=False)
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one", take_over=True)
        store.commit([step_row(claimed, 201)])

        prune(path, Rule(keep=10, context=0), by="ann")
        seqs = store.commit([step_row(claimed, 202)]).seqs

        assert (seqs[0] > 0, numbers(store, "one")) == (True, list(range(190, 203)))
    assert proof_of(path).findings == []


def killed(seconds: float) -> None:
    raise KeyboardInterrupt


def test_a_step_that_a_prune_cut_short_has_left_without_its_snapshot_can_not_be_forked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore(path, seal_every_s=0)) as store:
        claimed = claim(store, "one")
        for number in range(1, 61):
            store.commit([step_row(claimed, number, state='{"total":50}' if number == 50 else None)])
    monkeypatch.setattr(pruning_survey, "PORTION", 20)
    monkeypatch.setattr("orchestrator.store.pruning.prune_store.time.sleep", killed)
    with pytest.raises(KeyboardInterrupt):
        prune(path, Rule(keep=5, context=0), by="ann")
    monkeypatch.undo()
    assert 1 < kept(path)[0] < 40

    with pytest.raises(UsageError, match="state after step 45 can no longer be derived, because pruning was interrupted"):
        fork(path, "one", 45, to="two")
    fork(path, "one", 55, to="two")

    with closing(SqliteStore(path)) as store:
        assert (claim(store, "two").step, proof_of(path).findings) == (55, [])


def with_open_effects(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        store.commit([], effects=[intent_row(claimed, 1, key) for key in ("sent", "lost", "cut off", "again")])
        store.commit([], effects=[intent_row(claimed, 1, key, keep=True) for key in ("kept", "failed")])
        store.commit([], effects=[outcome_row(claimed, 1, "failed", EffectOutcome.FAILED, reason="no")])
        store.commit([], effects=[outcome_row(claimed, 1, "sent", EffectOutcome.CONFIRMED, result=1)])
        store.commit([], effects=[outcome_row(claimed, 1, key, EffectOutcome.UNKNOWN) for key in ("lost", "again")])
        store.commit([], effects=[outcome_row(claimed, 1, "again", EffectOutcome.NOT_DONE)])
    made(path, end=False)


@pytest.mark.parametrize("closed", [True, False])
def test_what_nobody_knows_of_an_effect_is_asked_for_ever(path: Path, closed: bool) -> None:
    with_open_effects(path)
    if not closed:
        tell(path, "DELETE FROM effect_index", "UPDATE meta SET indexed_seq = 0", "DELETE FROM step_index")
        tell(path, "DELETE FROM snapshots")

    would = survey(path, Rule(keep=10, context=0))
    prune(path, Rule(keep=10, context=0), by="ann")

    assert would.kept == {1: {"intent": 2, "outcome": 1}}
    with closing(SqliteReader(path)) as reader:
        assert [(one.key, one.outcome) for one in reader.effects()] == [("lost", "unknown"), ("cut off", "begun")]
    assert proof_of(path).findings == []
    tell(path, "UPDATE records SET body = replace(body, 'unknown', 'confirmed') WHERE kind = 'outcome'")
    assert [(finding.what, finding.step) for finding in judge(path)[0].findings] == [("edited", 1)]


def test_a_harness_that_can_go_on_keeps_as_much_as_its_last_start_says(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        for name, back in (("far", 150), ("near", 10)):
            claimed = claim(store, name)
            do(store, event_row(claimed, Started(0, back), Status.RUNNING))
            for number in range(1, 401):
                store.commit([step_row(claimed, number, state=f'{{"total":{number}}}')])
            do(store, event_row(claimed, Stopped(), Status.STOPPED, step=400))

    for context, far, near in ((120, 251, 281), (0, 251, 391), (0, 251, 391)):
        prune(path, Rule(keep=1, context=context), by="ann")
        assert (kept(path, "far")[0], kept(path, "near")[0]) == (far, near)

    assert proof_of(path).findings == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), keep=st.integers(1, 60), closed=st.booleans())
def test_of_any_run_every_harness_goes_on_as_if_nothing_was_pruned(folder: Path, seed: int, keep: int, closed: bool) -> None:
    chance = Random(seed)
    for path in folder.iterdir():
        path.unlink()
    make_run(folder / "whole.db", chance, chance.randrange(1, 400), closed=closed)
    copy_store(folder / "whole.db", folder / "pruned.db")
    names = chance.sample(["one", "two", "three"], chance.randrange(4))

    rules = (Rule(keep=keep, context=chance.choice([0, 20])), Rule(since_us=TIME_US + keep, context=chance.choice([0, 20])))
    prune(folder / "pruned.db", chance.choice(rules), names, by="ann")
    prune(folder / "pruned.db", Rule(keep=max(1, keep // 2), context=0), by="ann")

    assert proof_of(folder / "pruned.db").findings == []
    whole = {(name, step): rest for name, step, *rest in states(folder / "whole.db")}
    left = {(name, step): rest for name, step, *rest in states(folder / "pruned.db")}
    assert left == {place: rest for place, rest in whole.items() if place in left}
    assert told(folder / "pruned.db") == told(folder / "whole.db")


def test_time_limits_that_an_operator_has_set_hold_whatever_is_pruned(path: Path) -> None:
    body = '{"held":{"period_s":5.0}}'
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        for number in range(1, 201):
            store.commit([step_row(claimed, number, state=f'{{"total":{number}}}')])
            if number == 5:
                do(store, Remark("one", LIMITS_SET, body, TIME_US))
    prune(path, Rule(keep=10, context=10), by="ann")
    with closing(SqliteStore(path)) as store:
        assert claim(store, "one").time_limits == {"held": {"period_s": 5.0}}
