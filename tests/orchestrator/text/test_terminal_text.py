"""Laws of `text`: text from an agent is shown as it is, and cannot act on the terminal that shows it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.text.terminal_text import inert, one_line

ANY = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("over\rwritten", "over\\x0dwritten"),
        ("back\x08\x7f", "back\\x08\\x7f"),
        ("invoice\u202egpj.exe", "invoice\\u202egpj.exe"),
        ("\u2066\u2069\u200f\u061c", "\\u2066\\u2069\\u200f\\u061c"),
        ("\ud800", "\\ud800"),
        ("\ufe01\U000e0041\U00013430", "\\ufe01\\ue0041\\u13430"),
        ("\u2764\ufe0f\ufe0e\ufe0f", "\u2764\ufe0f\\ufe0e\\ufe0f"),
    ],
)
def test_what_could_move_the_cursor_or_turn_the_line_is_written_out(text: str, shown: str) -> None:
    assert inert(text) == shown


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "Zürich 東京 🙂 é", "a \\x1b that was written out"])
def test_other_text_is_shown_as_it_is(text: str) -> None:
    assert inert(text) == text


@given(ANY)
def test_no_text_at_all_leaves_a_control_character_or_what_can_not_be_printed(text: str) -> None:
    shown = inert(text)

    assert not {character for character in shown if unicodedata.category(character) in ("Cc", "Cs")} - {"\n", "\t"}
    assert shown.encode().decode() == shown


@given(ANY, st.integers(1, 80))
def test_one_line_is_one_line_of_at_most_its_width(text: str, width: int) -> None:
    shown = one_line(text, width)

    assert len(shown) <= width
    assert len(shown.splitlines()) <= 1


def test_a_line_that_is_cut_says_so() -> None:
    assert one_line("word " * 10, 12) == "word word w…"
