"""Lines: the first is told when something comes back, the next when the first has been served, and nobody is forgotten."""

from __future__ import annotations

from typing import Any

import trio

from harnesses.budgets.budget import Later
from orchestrator.recording.budget_account import Lines, Place

TOKENS, MONEY = Later("tokens", 10, 5, 5, 3, "all"), Later("money", 1, 0, 1, 1, "all")


def join(lines: Lines, later: Later, seen: dict[str, int] | None = None, place: Place | None = None) -> Place:
    return lines.join(later, lambda: None, lines.returns(["all"]) if seen is None else seen, place)


def test_only_the_first_is_told_that_something_came_back() -> None:
    lines = Lines()
    first, second, other = join(lines, TOKENS), join(lines, TOKENS), join(lines, MONEY)

    lines.ring(["all", "none"])

    assert [place.is_due for place in (first, second, other)] == [True, False, True]


def test_the_next_is_told_when_the_first_has_gone() -> None:
    lines = Lines()
    first, second, third = (join(lines, TOKENS) for _ in range(3))

    lines.leave(first)

    assert [second.is_due, third.is_due] == [True, False]


def test_who_was_not_first_leaves_the_others_alone() -> None:
    lines = Lines()
    first, second, third = (join(lines, TOKENS) for _ in range(3))

    lines.leave(second)
    lines.ring(["all"])

    assert [first.is_due, third.is_due] == [True, False]


def test_what_came_back_while_the_store_was_asked_is_not_missed() -> None:
    lines = Lines()
    seen = lines.returns(["all"])
    lines.ring(["all"])

    assert join(lines, TOKENS, seen).is_due
    assert not join(lines, TOKENS, seen).is_due, "it is behind the first"


def test_who_must_wait_again_keeps_its_place() -> None:
    lines = Lines()
    first, second = join(lines, TOKENS), join(lines, TOKENS)
    lines.ring(["all"])

    again = join(lines, TOKENS, place=first)
    lines.ring(["all"])

    assert again is first
    assert [first.is_due, second.is_due] == [True, False]


def test_who_waits_for_something_else_now_changes_the_line() -> None:
    lines = Lines()
    first, second = join(lines, TOKENS), join(lines, TOKENS)

    moved = join(lines, MONEY, place=first)

    assert moved.line == ("all", "money")
    assert second.is_due


async def test_the_first_asks_now_and_then_for_what_other_programs_give_back(autojump_clock: Any) -> None:
    lines = Lines()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lines.watch)
        await trio.sleep(1000)
        first, second = join(lines, TOKENS), join(lines, TOKENS)

        await trio.sleep(0.6)

        assert [first.is_due, second.is_due] == [True, False]
        nursery.cancel_scope.cancel()
