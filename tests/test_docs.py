"""The pages of `docs/`: they say what is, and what they show is what comes out."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("duckdb_ext")

from orchestrator.analysis.sql.sql_columns import VIEWS
from orchestrator.analysis.sql.sql_room import Room
from tests.docs import api_pages
from tests.docs.pages import DOCS, LOG, NAMES, generated
from tests.docs.tables import answer, blocks
from tests.docs.worked_questions import QUESTIONS

ANSWERS = list(blocks((DOCS / "reference/questions.md").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with Room(str(LOG)) as opened:
        yield opened


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_exactly_what_is_written_anew(room: Room, name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")

    assert page == generated(room, name), "write it anew: python -m tests.docs"


@pytest.mark.parametrize(("query", "shown"), ANSWERS)
def test_a_worked_question_has_the_answer_that_the_page_shows(room: Room, query: str, shown: str) -> None:
    assert answer(room, query) == shown


def test_every_worked_question_is_on_the_page_and_finds_something() -> None:
    assert [query for query, _ in ANSWERS] == [one.query.strip() for one in QUESTIONS]
    assert all(len(shown.splitlines()) > 2 for _, shown in ANSWERS)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_exactly_the_columns_that_are_described(room: Room, name: str) -> None:
    rows = answer(room, f"SELECT column_name, column_type FROM (DESCRIBE {name})").splitlines()[2:]

    assert [tuple(row.split()) for row in rows] == [(one.name, one.type) for one in VIEWS[name].columns]


@pytest.mark.parametrize("package", api_pages.PACKAGES)
def test_every_public_name_is_on_a_page_of_the_api(package: str) -> None:
    shown = {api_pages.value_of(*place) for page in api_pages.PAGES.values() for place in api_pages.names_on(page)}

    assert [name for name in api_pages.public(package) if api_pages.value_of(package, name) not in shown] == []


def test_the_run_of_the_pages_tells_nothing_of_the_machine_that_recorded_it() -> None:
    text = LOG.read_text(encoding="utf-8")

    assert not re.search(r"/(home|tmp|root|work|usr|Users|var)/", text)
