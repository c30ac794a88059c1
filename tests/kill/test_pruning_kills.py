"""Pruning that is killed leaves a store that opens and verifies; a program that runs meanwhile loses nothing by it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

from orchestrator.codec import decode, encode
from orchestrator.store import SqliteReader
from orchestrator.store.pruning import prune, survey
from orchestrator.store.pruning_plan import Rule
from tests.orchestrator.store.pruning_runs import make_run, states
from tests.tampering.proof import judge

from .lives import Life
from .pruning import prune_and_die
from .workload import KINDS


def assert_clean(store: Path) -> None:
    proof, alone = judge(store)
    assert (list(proof.findings), alone) == ([], [])


def test_pruning_that_is_killed_at_any_statement_leaves_a_store_that_verifies_and_goes_on(tmp_path: Path) -> None:
    chance, path = Random(4), tmp_path / "run.db"
    make_run(path, chance, 500)
    whole = {(name, step): rest for name, step, *rest in states(path)}
    floors = {floor.harness: floor.first for floor in survey(path, Rule(keep=10, context=0)).floors}

    codes: list[int] = []
    while not codes or codes[-1] != 0:
        codes.append(prune_and_die(path, keep=10, at=chance.randrange(50, 500)))
        assert_clean(path)
        left = {(name, step): rest for name, step, *rest in states(path, floors)}
        assert left == {(name, step): rest for (name, step), rest in whole.items() if step >= floors[name]}

    assert codes.count(-9) > 2
    assert left == {(name, step): rest for name, step, *rest in states(path)}


def test_a_program_that_runs_while_its_store_is_pruned_loses_nothing(tmp_path: Path) -> None:
    store, steps = tmp_path / "run.db", 600
    life = Life(store, steps=steps)
    life.listen(until=b"fields 100\n")

    gone = 0
    while not life.listen(0.2):
        gone += sum(prune(store, Rule(keep=40, context=20), by="tests").steps.values())
        assert_clean(store)

    assert life.end().code == 0
    assert gone > 0
    assert_clean(store)
    with closing(SqliteReader(store)) as reader:
        for name, kind in KINDS.items():
            numbers = [record.step_number for record in reader.steps(name, limit=10**6)]
            assert numbers == list(range(numbers[0], steps + 1))
            for number in (numbers[0], steps):
                assert decode(reader.state_at(name, number)) == decode(encode(kind.after(number)))
