"""Records larger than the engine's memory are analysed with more of it, and what is too large for that is named."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from duckdb import OutOfMemoryException

from harnesses import BaseHarness
from orchestrator import Orchestrator, UsageError, analysis
from orchestrator.analysis.frames import analysis_run as run
from orchestrator.analysis.questions import QUESTIONS
from orchestrator.analysis.sources import duckdb_session as duck

FIELDS = 100_000


class Wide(BaseHarness[dict[str, int], int, int]):
    """Fills a state with fields in one step, and changes one of them in the next."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        self.update_state(lambda _: {str(number): 0 for number in range(FIELDS)})
        yield 1, 1
        self.update_state(lambda state: {**state, "7": 1})
        yield 2, 2


@pytest.fixture
async def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(duck, "MEMORY", "16MB")
    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        orchestrator.start(Wide({}), name="wide")
    return tmp_path / "run.db"


async def test_a_state_of_many_fields_is_analysed_with_more_memory(wide: Path) -> None:
    with analysis.open(wide) as opened:
        told: dict[str, Any] = {name: QUESTIONS[name](opened) for name in ("loops", "cost", "progress")}

    assert [len(table.rows) for table in told["progress"].tables] == [1, FIELDS]


async def test_what_is_too_large_for_all_of_it_is_named(wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MORE_MEMORY", ("17MB",))

    with (
        analysis.open(wide) as opened,
        pytest.raises(UsageError, match="records too large to be analysed within 17MB"),
    ):
        QUESTIONS["progress"](opened)


async def test_a_frame_is_displayed_with_more_memory(wide: Path) -> None:
    with analysis.open(wide) as opened:
        assert "wide" in str(opened.frame("steps"))


def test_of_a_frame_that_is_too_large_to_be_displayed_the_first_rows_are() -> None:
    class Relation:
        """Rows of which so many can be displayed."""

        def __init__(self, rows: int, most: int) -> None:
            self.rows, self.most = rows, most

        def limit(self, rows: int) -> Relation:
            return Relation(rows, self.most)

        def __str__(self) -> str:
            if self.rows > self.most:
                raise OutOfMemoryException("no room")
            return f"{self.rows} rows"

    told = [run.shown(Relation(rows, most)).splitlines() for rows, most in ((3, 5), (500, 5), (500, 4), (500, 0))]

    assert [lines[0] for lines in told[:3]] == ["3 rows", "5 rows", "1 rows"]
    assert [lines[-1].partition(":")[0] for lines in told[1:]] == [*["only the first rows are shown"] * 2, "no row is shown"]
