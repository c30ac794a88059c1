"""The progress of a list is that of the analysis, and so is what each proven one has cost."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from orchestrator import analysis
from orchestrator.analysis.presets.coding_questions import worked
from orchestrator.analysis.questions import cost_question
from orchestrator.presets.list_progress import FEATURES, TASKS, ListProgress
from orchestrator.presets.list_told import told_item, told_items
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from tests.orchestrator.analysis.figured import record_all

LISTS = [("features", FEATURES), ("pipe", TASKS)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_all(tmp_path_factory.getbasetemp()) / "run.db"


def progress(store: Path, name: str, what: str, *, pages: int = 1) -> tuple[ListProgress, int]:
    read = ListProgress(SqliteReader(store), name, what)
    last = next(one.current_step for one in read.reader.harnesses() if one.name == name)
    for page in range(1, pages + 1):
        read.advance(last * page // pages, read.reader.last_seq() * page // pages, 60)
    return read, last


@pytest.mark.parametrize("pages", [1, 5])
@pytest.mark.parametrize(("name", "what"), LISTS)
def test_status_tries_and_passes_are_those_of_the_analysis(store: Path, name: str, what: str, pages: int) -> None:
    read, last = progress(store, name, what, pages=pages)
    with analysis.open(store) as run:
        [told] = worked(run, name)

    found = told_items(read, last)

    assert read.is_complete(last, read.reader.last_seq())
    assert (found["what"], found["listed"], found["passed"]) == (told.what, len(told.features), len(told.of("passed")))
    assert [(one["id"], one["status"]) for one in found["items"]] == [(one.id, one.status) for one in told.features]
    assert [one["cost"]["tries"] for one in found["items"]] == [one.tries + one.interruptions for one in told.features]
    passes = [(change.at.timestamp(), change.passing) for change in told.changes]
    assert [(time, passing) for time, passing, _ in found["changes"][1:]] == [
        (pytest.approx(time), passing) for time, passing in passes
    ]


@pytest.mark.parametrize(("name", "what"), LISTS)
def test_what_each_proven_one_has_cost_is_what_the_analysis_tells(store: Path, name: str, what: str) -> None:
    read, last = progress(store, name, what)
    with analysis.open(store) as run:
        answer = cost_question.answer(run, harness=name)
    [told] = next(one for one in answer.tables if one.name == "passed").dicts()

    found = told_items(read, last)

    assert (found["cost"]["tries"], found["cost"]["in_vain"]) == (told["tries"], told["in_vain"])
    assert found["per_passed"]["took_s"] == pytest.approx(told["try_per_pass_s"])
    assert (found["per_passed"]["money"], found["per_passed"]["tokens"]) == (told["money_per_pass"], told["tokens_per_pass"])


@pytest.mark.parametrize(("name", "what"), LISTS)
def test_each_try_has_its_evidence(store: Path, name: str, what: str) -> None:
    read, last = progress(store, name, what)

    one = told_item(read, last, "a")

    assert one["status"] == "passed"
    assert one["evidence"]
    assert all(check["passed"] for check in one["evidence"])
    first = one["tries"][-1]
    assert (first["number"], first["status"], first["passed"]) == (1, "not_validated", False)
    assert any(not check["passed"] and check["text"] for check in first["evidence"])


def test_money_is_what_was_charged_to_the_step(store: Path) -> None:
    read = ListProgress(SqliteReader(store), "spender", FEATURES)
    read.advance(0, read.reader.last_seq(), 60)

    assert read.charged == {number: (Decimal("0.10"), 30) for number in (1, 2, 3)}
