"""Laws of text from agents: bounded, unable to act, and shown by Markdown as it is."""

from __future__ import annotations

from itertools import pairwise
from unicodedata import bidirectional, category

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harnesses.diagnostics.control_characters import inert
from harnesses.features.agent_text import first_line, gist, last_part, one_line, plain

anything = st.text(st.characters(), max_size=400)
marked = st.text("ab1 \\`*_{}[]<>()#+-.!|~&$@:/=;\n\tpw", max_size=60)
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@given(anything, st.integers(1, 50))
def test_the_end_of_a_text_is_kept(text: str, most: int) -> None:
    kept = last_part(text, most)

    assert len(kept) <= most
    assert kept == text or (kept[0] == "…" and text.endswith(kept[1:]))


@given(anything)
def test_what_is_inert_can_be_stored_and_holds_nothing_that_acts(text: str) -> None:
    shown = inert(text)

    shown.encode()
    for character in shown:
        assert category(character) not in ("Cc", "Cs", "Zl", "Zp") or character in "\n\t"
        assert category(character) != "Cf" or bidirectional(character) in ("AL", "AN", "L"), "it cannot be seen"
    assert inert(shown) == shown


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\x07", "\r", "\x9b1m", "\u202e", "\u2066", "\u200b", "\ufeff", "\ud800", "\U000e0041"], ids=ascii
)
def test_what_moves_the_cursor_or_hides_text_is_written_out(text: str) -> None:
    assert inert(text)[0] == "\\"


@given(anything, st.integers(1, 50))
def test_one_line_is_one_line(text: str, most: int) -> None:
    shown = one_line(text, most)

    assert len(shown) <= most
    assert len(shown.splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "line"), [("", ""), (" \n\n", ""), ("\n  a b \nc", "a b"), ("a\r\nb", "a"), ("a" * 300, "a" * 199 + "…")]
)
def test_the_first_line_is_the_first_that_says_something(text: str, line: str) -> None:
    assert first_line(text) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("exit code 1\nand more", "exit code 1"),
        ("Traceback (most recent call last):\n  File\nValueError: no\n", "ValueError: no"),
        ("…cut off\n2 failed\n\n", "2 failed"),
    ],
)
def test_the_gist_of_a_traceback_is_its_last_line_and_of_anything_else_the_first(text: str, line: str) -> None:
    assert gist(text) == line


@given(anything | marked)
@example("1. a")
@example("- a")
@example("> a")
@example("a ~~b~~ <b> &amp; &#42; [a](b) ![a](b) `a` *a* _a_ __a__ http://a.b www.a.b a@b.c {{ a }} | a")
@example("\\&#42; \\\\`a`")
@example("=== \n ---")
def test_markdown_shows_plain_text_as_it_is(text: str) -> None:
    tokens = MARKDOWN.parse(f"* {plain(text)}\n")

    inside = [child for token in tokens for child in token.children or ()]
    assert [token.type for token in tokens if token.type not in ("inline", "paragraph_open", "paragraph_close")] == [
        "bullet_list_open",
        "list_item_open",
        "list_item_close",
        "bullet_list_close",
    ]
    assert {child.type for child in inside} <= {"text"}
    assert "".join(child.content for child in inside) == one_line(text).replace("`", "'")


@given(anything | marked)
def test_plain_text_is_one_cell_of_a_table(text: str) -> None:
    tokens = MARKDOWN.parse(f"| a | b |\n|---|---|\n| {plain(text)} | x |\n")

    cells = [after.content for before, after in pairwise(tokens) if before.type == "td_open"]
    assert len(cells) == 2
    assert cells[1] == "x"


@pytest.mark.parametrize(
    "text", ["http://a.b", "see https://a.b", "www.a.b", "WWW.a.b", "a@b.c", "@name", "#12", ":smile:", "{{ x }}", "$a$"]
)
def test_what_sites_make_links_and_pictures_of_is_broken_up(text: str) -> None:
    assert "&#" in plain(text)


@pytest.mark.parametrize(
    "text",
    [
        "tests/test_a.py::test_b_c[x-1] passed",
        "tests/test_a.py::test_b: assert [1, 2] == [3], where 2 < 3",
        "exit code 1, 0.25 s",
        "a.b/c-d (try 2)",
        "a * b",
    ],
)
def test_ordinary_words_can_be_read_in_the_file_too(text: str) -> None:
    assert plain(text) == text
