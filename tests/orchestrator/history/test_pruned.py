"""Of a pruned store, what is kept can be looked at, forked and judged as ever; what is gone is said to be."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import trio

from orchestrator import UsageError
from orchestrator.history import diff, rejudge, replay, state_at
from orchestrator.history.forking import fork
from orchestrator.store import SqliteReader
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from tests.orchestrator.buying import run
from tests.tampering.proof import judge

STEPS = 200


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Give a store of which the first steps were pruned, and the number of the first that is kept."""
    path = tmp_path_factory.mktemp("pruned") / "run.db"
    trio.run(run, path, STEPS)
    prune(path, Rule(keep=20), by="ada")
    with closing(SqliteReader(path)) as reader:
        oldest = reader.steps("buying", limit=1)[0].step_number
    assert 1 < oldest <= STEPS - 20
    return path, oldest


async def test_what_is_kept_can_be_looked_at_and_what_is_gone_is_named(pruned: tuple[Path, int]) -> None:
    path, oldest = pruned

    found = [state_at(path, "buying", step)["fills"] for step in (oldest, STEPS)]

    assert found == [list(range(1, oldest + 1)), list(range(1, STEPS + 1))]
    assert len(diff(path, "buying", oldest, STEPS)) == STEPS - oldest + 1
    for step in (1, oldest - 1):
        with pytest.raises(UsageError, match=f"step {step} was pruned: expected a number from {oldest}"):
            state_at(path, "buying", step)


async def test_a_fork_of_what_is_kept_goes_on_and_is_proven(pruned: tuple[Path, int]) -> None:
    path, oldest = pruned

    fork(path, "buying", STEPS - 5, to="other")
    await run(path, STEPS + 2, name="other", times=0)

    assert state_at(path, "other", STEPS + 2)["fills"] == [*range(1, STEPS - 4), *[0] * 7]
    assert state_at(path, "other", oldest) == state_at(path, "buying", oldest)
    proof, alone = judge(path)
    assert (list(proof.findings), alone) == ([], [])


async def test_a_fork_from_a_step_that_is_gone_is_refused(pruned: tuple[Path, int]) -> None:
    path, oldest = pruned

    with pytest.raises(UsageError, match=f"step 3 was pruned: expected a number from {oldest}"):
        fork(path, "buying", 3, to="another")


async def test_a_past_without_its_beginning_does_not_go_into_another_store(pruned: tuple[Path, int], tmp_path: Path) -> None:
    path, oldest = pruned

    with pytest.raises(UsageError, match=f"its steps before {oldest} were pruned; fork it within its own"):
        fork(path, "buying", STEPS, to="other", into=tmp_path / "other.db")

    assert not (tmp_path / "other.db").exists()


async def test_steps_are_judged_from_the_first_whose_state_before_is_known(pruned: tuple[Path, int]) -> None:
    path, oldest = pruned

    found = [one async for one in rejudge(path, "buying", lambda look: look.after["cash"] - look.before["cash"])]

    assert [(one.step, one.today) for one in found] == [(step, -step) for step in range(oldest + 1, STEPS + 1)]


async def test_a_replay_gives_what_is_kept(pruned: tuple[Path, int]) -> None:
    path, oldest = pruned

    assert [record.step async for record in replay(path, kinds="step", names="buying")] == list(range(oldest, STEPS + 1))
