"""What nobody can see says nothing, and names that a reader takes for the same are the same."""

from __future__ import annotations

import pytest

from harnesses.governance.agent_words import is_meaningful, says_enough, skeleton


@pytest.mark.parametrize("text", ["pytest: 3 passed", "SKIPPED: no network", "skipped - needs docker", "ruff check", "テスト"])
def test_an_item_that_says_something_is_meaningful(text: str) -> None:
    assert is_meaningful(text)


@pytest.mark.parametrize(
    "text", ["", "  ", "-", "n/a", "N/A", "None", "TODO", "SKIPPED", "skipped:", "skip: ", "\u200b\u200b", "..."]
)
def test_an_item_that_stands_for_nothing_is_not(text: str) -> None:
    assert not is_meaningful(text)


@pytest.mark.parametrize(
    "text", ["", " " * 20, "\u200b" * 20, "." * 20, "short", "   nine char", "TODO TODO TODO", "n/a, n/a, n/a, none"]
)
def test_ten_characters_must_be_seen_and_say_something(text: str) -> None:
    assert not says_enough(text, 10)


def test_ten_characters_are_enough() -> None:
    assert says_enough(" did a thing ", 10)
    assert says_enough("0123456789", 10)
    assert not says_enough("012345678", 10)


@pytest.mark.parametrize(
    "other",
    [
        "Builder",
        " builder ",
        "BUILDER",
        "b u i l d e r",
        "builder\u200b",
        "bui\u00adlder",
        "\uff42\uff55\uff49\uff4c\uff44\uff45\uff52",
        "bu\u0456lder",
        "builder.",
        "bu\u00edld\u0435r",
    ],
)
def test_names_that_look_alike_are_one(other: str) -> None:
    assert skeleton(other) == skeleton("builder")


@pytest.mark.parametrize("other", ["builder-2", "validator", "建設者", ""])
def test_names_that_differ_stay_two(other: str) -> None:
    assert skeleton(other) != skeleton("builder")
