"""G11: a store on PostgreSQL is pruned while programs run: what they need stays, the rest goes, and what is left verifies."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from random import Random

import psycopg
import pytest
import trio

from harnesses.budgets.budget import Budget
from orchestrator.cli import main
from orchestrator.errors import UsageError
from orchestrator.store import PostgresStore, SqliteReader
from orchestrator.store.conformance import TIME_US, claim, do, step_row
from orchestrator.store.places import server_prune
from orchestrator.store.places.store_location import local_path
from orchestrator.store.pruning import prune_survey
from orchestrator.store.store_operations import Fund
from orchestrator.store.store_protocol import Fork, Post
from tests.orchestrator.store.postgres.counting_program import Program
from tests.orchestrator.store.pruning_runs import SECRET, go_on

Run = Callable[..., list[dict[str, object]]]


def make_steps(store: PostgresStore, harnesses: int, steps: int) -> None:
    """Make steps under several seals."""
    for upto in range(40, steps + 1, 40):
        trio.run(Program(harnesses, min(upto, steps)).run, store)
        store.sealing.seal()
    trio.run(Program(harnesses, steps).run, store)


@pytest.fixture
def run(database: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def verb(*words: str, code: int = 0) -> list[dict[str, object]]:
        capsys.readouterr()
        found = main([*words, "--json", "--store", database])
        said = capsys.readouterr()
        assert found == code, said.out + said.err
        return [json.loads(line) for line in said.out.splitlines()]

    return verb


def test_what_is_pruned_is_gone_and_the_rest_verifies_and_goes_on(
    database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In small portions, twice, beside a program that goes on; every machine's copy has what was pruned no longer."""
    monkeypatch.setattr(prune_survey, "PORTION", 40)
    with closing(PostgresStore(database)) as store:
        make_steps(store, 3, 300)
        running = claim(store, "running")
        store.commit([step_row(running, 1)])
        do(store, Post("running", "me", 1, '"waits"', id="a"))
        before = {name: store.state_at(name, 300) for name in ("h0", "h1", "h2")}
        local_path(database)

        *_, would = run("prune", "--keep", "50", "--context", "50", "--dry-run")
        *floors, done = run("prune", "--keep", "50", "--context", "50")

        assert would["steps"] == done["steps"] == sum(300 - len(store.steps(name)) for name in before) > 500
        assert (would["records"], done["dry_run"]) == (done["records"], False)
        assert {name: store.state_at(name, 300) for name in before} == before
        assert [message.body for message in store.mailbox("running")] == ['"waits"']
        with pytest.raises(UsageError, match="step 3 was pruned: expected a number from"):
            store.state_at("h0", 3)
        assert all(store.commit([step_row(running, 2)]).seqs)
        with closing(SqliteReader(local_path(database))) as copy:
            assert copy.records(limit=10_000) == store.records(limit=10_000)
        said = run("verify", "--deep")[-1]
        assert (said["untouched"], said["pruned"] is not None) == (True, True)
        assert run("prune", "--keep", "50", "--context", "50")[-1]["records"] == 0

        trio.run(Program(3, 360).run, store)
        assert run("prune", "--keep", "20", "--context", "20")[-1]["steps"] != 0
        assert run("verify", "--deep")[-1]["untouched"] is True
        assert store.steps("h0")[-1].step_number == 360
    assert floors[0]["harness"] == "h0"
    assert run("verify")[-1]["untouched"] is True


def test_a_machine_whose_head_was_pruned_is_told_so_until_a_later_one_is_given(
    database: str, run: Run, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has the database can write it anew so that it looks pruned. A prune by this machine is known to it."""
    with closing(PostgresStore(database)) as store:
        make_steps(store, 1, 80)
        (head,) = cache.rglob("*-head")
        before = head.read_text()
        make_steps(store, 1, 200)
    run("prune", "--keep", "10", "--context", "10")
    said = run("verify")[-1]
    assert "this machine" not in str(said["notices"])
    head.write_text(before)  # as on a machine that was away

    with closing(PostgresStore(database)) as store:
        make_steps(store, 1, 240)

    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert "that this machine has seen, was pruned by" in told[0]
    later = run("verify")[-1]
    assert f"remove {head} to trust the store as it is now" in str(later["notices"])
    assert head.read_text() == before
    run("verify", "--head", str(said["head"]))
    assert head.read_text() != before
    assert "this machine" not in str(run("verify")[-1]["notices"])


def test_runs_by_chance_go_on_after_they_were_pruned(database: str, run: Run, tmp_path: Path) -> None:
    """With messages, effects, approvals, spends and crashes; a fork of what is left is as its origin."""
    chance, ends = Random(7), dict[str, str]()
    with closing(PostgresStore(database, key=SECRET)) as store:
        do(store, Fund("all", Budget(tokens=10**9, money=Decimal(10**6)), TIME_US))
        for _ in range(3):
            go_on(store, chance, 120)
            ends = {one.name: store.state_at(one.name, one.current_step) for one in store.harnesses() if one.current_step}
            run("prune", "--keep", "3", "--context", "3")
            assert {name: store.state_at(name, store.steps(name)[-1].step_number) for name in ends} == ends
        (one, *_) = (one for one in store.harnesses() if len(store.steps(one.name)) < one.current_step)
        do(store, Fork("other", one.name, one.current_step, TIME_US))
        assert store.state_at("other", one.current_step) == ends[one.name]
    assert run("verify", "--deep")[-1]["untouched"] is True
    assert main(["copy", database, str(tmp_path / "copy.db")]) == 2


def test_a_prune_that_ends_in_the_middle_goes_on_and_tampering_is_not_taken_for_it(
    database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune_survey, "PORTION", 40)
    with closing(PostgresStore(database)) as store:
        make_steps(store, 2, 200)
    take, taken = vars(server_prune)["_ServerPruner"]._take, list[object]()

    def take_two(self: object, portion: object) -> object:
        taken.append(portion)
        if len(taken) > 2:
            raise UsageError("killed")
        return take(self, portion)

    with monkeypatch.context() as patch:
        patch.setattr(vars(server_prune)["_ServerPruner"], "_take", take_two)
        run("prune", "--keep", "10", "--context", "10", code=2)
    assert run("verify", "--deep")[-1]["untouched"] is True
    with psycopg.connect(database, options="-csearch_path=orchestrator") as db:
        (middle,) = db.execute("SELECT min(seq) + 60 FROM records WHERE kind = 'step'").fetchone() or (0,)
        db.execute("UPDATE records SET body = body || ' ' WHERE seq = %s", (middle,))
    assert run("verify", code=5)[0]["seq"] == middle
    run("prune", "--keep", "10", "--context", "10", code=5)
    with psycopg.connect(database, options="-csearch_path=orchestrator") as db:
        db.execute("UPDATE records SET body = rtrim(body) WHERE seq = %s", (middle,))
    assert run("prune", "--keep", "10", "--context", "10")[-1]["steps"] != 0
    assert run("verify", "--deep")[-1]["untouched"] is True
