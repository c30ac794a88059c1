"""A large store is copied into columns before it is asked: the answers are those of the store itself."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from attrs import astuple

from orchestrator import Orchestrator, analysis
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions import QUESTIONS
from orchestrator.analysis.sources import StoreSource, copied_columns, store_source, store_summary
from orchestrator.analysis.sources.copied_columns import Columns
from orchestrator.store import SqliteStore
from orchestrator.store.store_protocol import Claim
from tests.benchmarks.large_store import write_large_store
from tests.orchestrator.scripted import Scripted, Steps
from tests.secrets.leaks import GITHUB, WORD

ASKED = tuple(name for name in QUESTIONS if name not in ("compare", "why"))
ODD = (
    (None, None),
    ([1], "text"),
    ({"kind": "turn", "feature_id": "f1", "turn": 1}, {"status": "not_validated", "note": f"password={WORD}"}),
    ({"kind": "turn", "feature_id": "f1", "turn": 2}, {"status": "not_validated", "result": 7, "verdict": [GITHUB]}),
    ({"kind": "turn", "feature_id": GITHUB, "turn": 1}, {"status": "passed", "note": {"a": 1}, "duration_s": "1"}),
    ({"bars": {"SPY": {"split": "2"}}}, {"time": "2020-01-01", "equity": "1", "cash": "1", "drawdown": "0", "risk": ""}),
    *((1, f"again {number}") for number in range(12)),
    *((1, "again") for _ in range(8)),
)
"""Inputs and outputs of which some only look as if they were those of a ready-made harness."""


async def odd(harness: Scripted) -> Steps:
    for given, made in ODD[harness.current_step :]:
        yield given, made


@pytest.fixture(scope="module", params=["large", "asked", "odd"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of ready-made harnesses, of a run in which much has happened, and of texts that were not redacted."""
    if request.param == "asked":
        folder: Path = request.getfixturevalue("asked")
        return folder / "run.db"
    path: Path = tmp_path_factory.mktemp("columns") / "run.db"
    if request.param == "large":
        write_large_store(path, 600, 6)
    else:

        async def run() -> None:
            async with Orchestrator(path, redact=False) as group:
                group.start(Scripted(odd), name=f"odd-{WORD}")

        trio.run(run)
    return path


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy small stores, too, by two processes, into the folder of the run."""
    monkeypatch.setattr(store_source, "LEAST", 1)
    monkeypatch.setattr(copied_columns, "SHARE", 10)
    monkeypatch.setattr(copied_columns, "FEW", 1)
    monkeypatch.setattr(store_summary, "usable_folder", lambda store: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


def answers(run: Run) -> list[Any]:
    """Return the answers. The last digits of a sum depend on the order in which an engine of several threads adds."""
    return [rounded(astuple(QUESTIONS[name](run))) for name in ASKED]


def rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(rounded, cast("tuple[Any, ...]", value)))
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_answers_from_a_copy_are_those_from_the_store(store: Path, copying: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with analysis.open(store) as run:
        run.expect()
        copied = answers(run)
        assert copy_of(run) is not None
    monkeypatch.setattr(store_source, "LEAST", 1 << 30)
    with analysis.open(store) as run:
        assert answers(run) == copied
        assert copy_of(run) is None


def test_a_frame_says_the_same_before_and_after_a_copy(store: Path, copying: None) -> None:
    with analysis.open(store) as run:
        names = ("steps", "features", "trades", "equity", "effects", "attempts", "harnesses", "events", "records")
        before = [run.rows(f"SELECT * FROM {name} ORDER BY ALL") for name in names]
        run.expect()
        assert [run.rows(f"SELECT * FROM {name} ORDER BY ALL") for name in names] == before


def test_a_copy_is_for_its_owner_alone_and_goes_with_the_run(asked: Path, copying: None) -> None:
    with analysis.open(asked / "run.db") as run:
        run.expect()
        copied = copy_of(run)
        assert copied is not None
        files = [Path(file) for one in copied.ranges for file in (one.steps, one.others)]
        folder = files[0].parent
        assert folder.stat().st_mode & 0o077 == 0
        assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 4
        assert all(file.parent == folder != asked for file in files)
    assert not folder.exists()


def test_what_cannot_be_copied_is_read_from_the_store(asked: Path, copying: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with analysis.open(asked / "run.db") as run:
        assert QUESTIONS["summary"](run).tables[0].rows
        assert copy_of(run) is None


def test_records_after_the_run_was_opened_are_not_copied(tmp_path: Path, copying: None) -> None:
    path = tmp_path / "run.db"
    write_large_store(path, 12, 2)
    with analysis.open(path) as run:
        with closing(SqliteStore(path)) as store:
            store.commit([], [Claim("late", "null", "example:Late")])
        before = run.rows("SELECT max(seq) FROM harnesses")
        run.expect()
        assert run.rows("SELECT max(seq) FROM harnesses") == before


def copy_of(run: Run) -> Columns | None:
    assert isinstance(run.source, StoreSource)
    return run.source.copied
