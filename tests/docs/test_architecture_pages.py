"""The pages of `docs/architecture/` say what is in the code: every package has one, and every module is on it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.docs.architecture_pages import MARK, PAGES, PLACE, page
from tests.docs.import_picture import Layout, fewest, layers_of
from tests.docs.package_graph import CHAPTERS, Chapter, project


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_exactly_what_is_written_anew(name: str) -> None:
    text = (PLACE / f"{name}.md").read_text(encoding="utf-8")

    assert text == page(name), "write it anew: python -m tests.docs"
    assert "egin" in text.partition(MARK)[0], "say where to begin reading"


def test_every_module_is_on_one_page_and_named_there() -> None:
    for module in project().texts:
        chapters = [chapter for chapter in CHAPTERS if chapter.has(module)]

        assert len(chapters) == 1, module
        if not module.endswith(".__init__"):
            text = (PLACE / f"{chapters[0].name}.md").read_text(encoding="utf-8")
            assert f"(../../{module.replace('.', '/')}.py) |" in text, module


def test_where_to_begin_is_in_the_picture() -> None:
    for chapter in CHAPTERS:
        assert set(chapter.begin) <= set(chapter.edges()), chapter.name


def test_there_is_no_other_page() -> None:
    assert {path.stem for path in PLACE.glob("*.md")} == set(PAGES)


EDGES = {"a": frozenset("bcd"), "b": frozenset("cd"), "c": frozenset("d"), "d": frozenset(), "e": frozenset("d")}


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    assert fewest(EDGES) == {
        "a": frozenset("b"),
        "b": frozenset("c"),
        "c": frozenset("d"),
        "d": frozenset(),
        "e": frozenset("d"),
    }


def test_what_is_imported_is_below() -> None:
    layer = layers_of(EDGES)

    assert all(layer[node] > layer[to] for node, tos in EDGES.items() for to in tos)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_no_two_boxes_of_a_picture_overlap(chapter: Chapter) -> None:
    layout = Layout(fewest(chapter.edges()))
    layout.arrange()

    for row in layout.rows:
        for left, right in pairwise(row):
            assert layout.x[left] + left.width / 2 < layout.x[right] - right.width / 2
