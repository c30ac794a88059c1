"""The page in a real browser, about a program that runs: it names what needs a person, and its buttons are the verbs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from tests.orchestrator.web.conftest import Live

TROUBLED = {"blocked": "blocked", "halted": "halted", "hung": "hung", "asking": "approval"}
_PATIENCE_S = 30
PHONE = {"width": 390, "height": 800}


@pytest.fixture
def page(browser: Any, live: Live) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    page.goto(live.url)
    yield page
    context.close()
    assert problems == []


def wait_for(condition: Callable[[], bool], what: Callable[[], str] = lambda: "") -> None:
    """Wait until something is so; a loaded machine may take its time. `what` says what there was instead."""
    until = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < until, what()
        time.sleep(0.05)


def needs(page: Any) -> dict[str, str]:
    """Return the cards that are shown: of each harness, what it is."""
    cards = page.locator("section.card")
    return {card.get_attribute("data-harness"): card.get_attribute("data-kind") for card in cards.all()}


def status(store: Path, name: str) -> tuple[str, int]:
    """Return status and step of a harness, from its store."""
    with closing(SqliteReader(store)) as reader:
        return next((one.status.value, one.current_step) for one in reader.harnesses() if one.name == name)


def test_the_page_names_the_harnesses_in_trouble_and_only_them(page: Any) -> None:
    wait_for(lambda: needs(page) == TROUBLED)
    wait_for(lambda: page.locator("#count").inner_text() == str(len(TROUBLED)))


def test_an_approval_given_on_a_phone_lets_the_harness_act(page: Any, live: Live) -> None:
    page.set_viewport_size(PHONE)
    card = page.locator("section.card[data-harness=asking]")
    card.locator("input").fill("looks right")
    assert "<img src=x" in card.locator("pre").inner_text(), "what an agent wrote is text"
    card.get_by_role("button", name="Approve").click()
    card.wait_for(state="detached")

    wait_for(lambda: status(live.store, "asking")[1] > 0)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], "nothing has to be scrolled sideways"
    with closing(SqliteReader(live.store)) as reader:
        (request,) = reader.approvals("asking")
    assert any("looks right" in answer for answer in request.case.answers)


def test_what_is_typed_and_unfolded_stays_while_other_things_change(page: Any, live: Live) -> None:
    reason = page.locator("section.card[data-harness=asking] input")
    reason.fill("the account is the right one")
    card = page.locator("section.card[data-harness=blocked]")
    card.get_by_role("button", name="Start").click()
    page.locator("#said p").first.wait_for()
    page.locator("section.card[data-harness=halted]").evaluate("(card) => card.remove()")
    page.locator("section.card[data-harness=halted]").wait_for()  # it is drawn again
    assert reason.input_value() == "the account is the right one"

    page.goto(f"{live.url.partition('?')[0]}#/h/healthy")
    page.locator("div.step button").nth(2).click()
    unfolded = page.locator("div.step:has([aria-expanded=true])")
    number = unfolded.locator("button").first.inner_text()
    newest = page.locator("div.step button").first
    before = newest.inner_text()
    head = page.locator("dl.facts")
    told = head.inner_text()
    page.evaluate("window.seen = [...document.querySelectorAll('dl.facts, ol.chain')]")
    wait_for(lambda: newest.inner_text() != before and head.inner_text() != told)
    assert unfolded.locator("button").first.inner_text() == number
    assert page.evaluate("window.seen.map((one) => one.isConnected)") == [True, True]


@pytest.mark.parametrize(("button", "becomes"), [("Pause", "paused"), ("Pause now", "paused"), ("Stop", "stopped")])
def test_the_buttons_of_a_harness_do_what_the_verbs_do(page: Any, live: Live, button: str, becomes: str) -> None:
    page.goto(f"{live.url.partition('?')[0]}#/h/healthy")
    page.locator("main .tabs").wait_for()  # the view before has such buttons, too
    page.get_by_role("button", name=button, exact=True).click()

    wait_for(lambda: status(live.store, "healthy")[0] == becomes)
    page.get_by_role("button", name="Resume" if becomes == "paused" else "Start", exact=True).click()
    wait_for(lambda: status(live.store, "healthy")[0] == "running")


def test_a_step_shows_hostile_text_as_text(page: Any, live: Live) -> None:
    wait_for(lambda: status(live.store, "healthy")[1] > 2)
    page.goto(f"{live.url.partition('?')[0]}#/h/healthy")
    page.locator("div.step button").first.click()
    page.get_by_text("State after it").first.wait_for()

    wait_for(lambda: any(r"\u202e" in text for text in page.locator("div.step pre").all_inner_texts()))
    assert page.locator("main img").count() == 0


def test_the_fleet_has_every_harness_worst_first_and_is_searched_and_used_by_keyboard(page: Any, live: Live) -> None:
    page.goto(f"{live.url.partition('?')[0]}#/fleet")
    rows = page.locator("div.row[data-harness]")
    wait_for(lambda: rows.count() == 5)
    assert rows.last.get_attribute("data-harness") == "healthy"

    page.get_by_label("Search").fill("frobnicate")
    wait_for(lambda: rows.count() == 1)
    page.locator(".grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/h/blocked")
