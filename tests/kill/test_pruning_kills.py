"""Pruning that is killed leaves a store that opens and verifies; a program that runs meanwhile loses nothing by it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from orchestrator.codec import decode, encode
from orchestrator.store import SqliteReader
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune

from .lives import Life
from .pruning import assert_clean, die_until_done
from .workload import KINDS


def test_pruning_that_is_killed_at_any_statement_leaves_a_store_that_verifies_and_goes_on(tmp_path: Path) -> None:
    codes = die_until_done(tmp_path / "run.db", seed=4, moves=250)

    assert codes.count(-9) > 2


def test_a_program_that_runs_while_its_store_is_pruned_loses_nothing(tmp_path: Path) -> None:
    store, steps = tmp_path / "run.db", 400
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
