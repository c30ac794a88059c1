"""The pages of `docs/`: they say what is, and what they show is what comes out."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("duckdb_ext")

from orchestrator.analysis.sources.source_reading import KINDS
from orchestrator.analysis.sql.sql_columns import VIEWS
from orchestrator.analysis.sql.sql_room import Room
from orchestrator.log import HEADER
from tests import ROOT
from tests.docs import api_pages, errors_page, log_page, metrics_page
from tests.docs.error_remedies import REMEDIES
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


def test_every_extra_is_in_the_readme() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in extras if f"`{name}`" not in readme and f"[{name}]" not in readme] == []


def test_every_class_of_errors_has_a_remedy() -> None:
    assert {cls.__name__ for cls in errors_page.classes()} == set(REMEDIES)


def test_every_label_of_a_metric_is_explained() -> None:
    assert set(metrics_page.labels_of_all()) == set(metrics_page.LABELS)


def test_every_kind_of_record_is_on_the_page_about_the_log() -> None:
    assert list(HEADER) == log_page.HEADER_FIELDS
    assert set(KINDS) <= set(log_page.KINDS) == set(log_page.samples())


_JSON = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict, "any": object}


@pytest.mark.parametrize("path", [log_page.RUN, log_page.SAMPLES], ids=lambda path: path.name)
def test_a_line_of_the_log_has_the_fields_and_types_that_the_page_says(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        known = log_page.KINDS[fields["event"].removeprefix("harness.")].fields
        own = {name: value for name, value in fields.items() if name not in HEADER}

        assert set(own) <= set(known)
        assert [name for name, value in own.items() if not isinstance(value, _JSON[known.get(name, ("any",))[0]])] == []


def test_a_field_of_the_log_has_one_type_in_all_kinds_of_lines() -> None:
    types: dict[str, set[str]] = {}
    for kind in log_page.KINDS.values():
        for name, (type, _) in kind.fields.items():
            types.setdefault(name, set()).add(type)

    assert {name: found for name, found in types.items() if len(found) > 1} == {}
    assert not {name for name in types if name in HEADER}


def test_the_run_of_the_pages_tells_nothing_of_the_machine_that_recorded_it() -> None:
    text = LOG.read_text(encoding="utf-8")

    assert not re.search(r"/(home|tmp|root|work|usr|Users|var)/", text)
