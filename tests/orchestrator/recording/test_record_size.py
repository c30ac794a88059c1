"""What is larger than one record may be ends the harness that made it, before anything is written, and nobody else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harnesses import BaseHarness
from harnesses.data.record_size import CEILING_BYTES
from harnesses.effects.approval import Action
from orchestrator import Orchestrator, Outcome, OutcomeKind
from orchestrator.errors import HarnessFailed, RecordTooLarge, UsageError
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import prove

MOST = 50_000
LARGE = "x" * MOST


class Large(BaseHarness[dict[str, Any], Any, Any]):
    """Does in its second step what it is given."""

    def __init__(self, deed: Any, steps: int = 2) -> None:
        super().__init__({"rows": []})
        self.deed, self.steps = deed, steps
        self.lives = 0

    async def execute(self) -> Any:
        self.lives += 1
        if not self.current_step:
            yield 1, 1
        while self.current_step < self.steps and (pair := await self.deed(self)) is not None:
            yield pair


class Sibling(BaseHarness[int, int, int]):
    async def execute(self) -> Any:
        for number in range(5):
            yield number, number


async def in_output(harness: Large) -> Any:
    return 1, LARGE


async def in_output_inside(harness: Large) -> Any:
    return 1, {"rows": [LARGE]}


async def in_bytes(harness: Large) -> Any:
    return 1, b"x" * MOST


async def in_text_of_many_bytes(harness: Large) -> Any:
    return "\U0001f600" * (MOST // 4), 1


async def in_summary(harness: Large) -> Any:
    harness.update_state(lambda state: state, summary=LARGE)
    return 1, 1


async def in_change(harness: Large) -> Any:
    harness.update_state(lambda state: {"rows": [LARGE]})
    return 1, 1


async def in_message(harness: Large) -> Any:
    await harness.send("sibling", LARGE)
    return 1, 1


async def in_arguments(harness: Large) -> Any:
    await harness.once("act", str, LARGE)
    return 1, 1


async def in_approval(harness: Large) -> Any:
    await harness.approval("act", Action("other", "to do it", arguments=LARGE))
    return 1, 1


async def in_state(harness: Large) -> Any:
    row = f"{harness.current_step} " + "y" * 1_000
    harness.update_state(lambda state: {"rows": [*state["rows"], row]})
    return 1, 1


DEEDS = [
    in_output, in_output_inside, in_bytes, in_text_of_many_bytes, in_summary, in_change, in_message, in_arguments,
    in_approval, in_state,
]  # fmt: skip


async def run(path: Path, harness: Large) -> tuple[Outcome, Outcome]:
    outcomes: list[Outcome] = []
    try:
        async with Orchestrator(path, max_record_bytes=MOST) as orchestrator:
            handles = [orchestrator.start(harness, name="large"), orchestrator.start(Sibling(0), name="sibling")]
            outcomes += [await handle.wait() for handle in handles]
    except* HarnessFailed:
        pass
    return outcomes[0], outcomes[1]


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
async def test_what_is_too_large_ends_its_harness_alone_and_nothing_of_it_is_written(
    deed: Any, tmp_path: Path, autojump_clock: object
) -> None:
    harness = Large(deed, 200)
    outcome, sibling = await run(tmp_path / "run.db", harness)

    assert isinstance(outcome.error, RecordTooLarge)
    assert sibling.kind is OutcomeKind.FINISHED
    assert harness.lives == 1, "what is too large stays too large: it is not started again"
    for word in ("harness 'large', step ", f"at most {MOST:,}", "max_record_bytes"):
        assert word in outcome.cause
    assert outcome.step == (1 if deed is not in_state else outcome.step)

    again, _ = await run(tmp_path / "run.db", Large(in_nothing))
    assert again.kind is OutcomeKind.FINISHED
    assert largest(tmp_path / "run.db") < 1.1 * MOST
    assert prove(tmp_path / "run.db", head_path(tmp_path / "run.db").read_text()).findings == []


async def in_nothing(harness: Large) -> Any:
    return None


def largest(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        (size,) = db.execute("SELECT max(max(length(body), coalesce(length(state), 0))) FROM records").fetchone()
    return int(size)


async def test_an_effect_has_happened_whose_result_is_too_large(tmp_path: Path, autojump_clock: object) -> None:
    calls: list[int] = []
    causes: list[str] = []

    def act() -> str:
        calls.append(1)
        return LARGE

    async def deed(harness: Large) -> Any:
        await harness.once("act", act)
        return 1, 1

    for _ in range(2):
        outcome, _ = await run(tmp_path / "run.db", Large(deed))
        assert outcome.kind is OutcomeKind.BLOCKED
        assert "has happened" in outcome.cause
        causes.append(outcome.cause)
    assert "max_record_bytes" in causes[0]
    assert calls == [1]


async def test_an_initial_state_that_is_too_large_is_refused_at_the_start(tmp_path: Path) -> None:
    async with Orchestrator(tmp_path / "run.db", max_record_bytes=MOST) as orchestrator:
        harness = Large(in_nothing)
        harness.update_state(lambda state: {"rows": [LARGE]})
        with pytest.raises(RecordTooLarge, match="harness 'large': its initial state"):
            orchestrator.start(harness, name="large")


async def test_another_limit_may_be_chosen(tmp_path: Path, autojump_clock: object) -> None:
    async with Orchestrator(tmp_path / "run.db", max_record_bytes=2 * MOST) as orchestrator:
        outcome = await orchestrator.start(Large(in_output), name="large").wait()

    assert (outcome.kind, outcome.step) == (OutcomeKind.FINISHED, 2)


@pytest.mark.parametrize("limit", [0, -1, 999, CEILING_BYTES + 1, True, 1e6, "16 MB", None])
def test_a_limit_that_no_store_can_keep_is_refused(limit: Any) -> None:
    with pytest.raises(UsageError, match="max_record_bytes: expected a whole number from 1,000 to 300,000,000"):
        Orchestrator(max_record_bytes=limit)
