"""Every view of the page by axe-core, light and dark, on a desk and on a phone: nothing serious. And by keyboard alone."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import BaseHarness
from harnesses.budgets.budget import Budget
from orchestrator import Orchestrator
from tests.npm_packages import npm_package
from tests.orchestrator.web.conftest import TOKEN, Live, serving
from tests.orchestrator.web.fleet_program import Asking, Blocked, Halted, Healthy
from tests.orchestrator.web.ready_made_runs import coding, trading
from tests.orchestrator.web.test_page_browser import status, wait_for

AXE = ("axe-core", "4.14.1")
SERIOUS = ("serious", "critical")
SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 800}}
TABS = ("state", "output", "messages", "history", "effects", "transcript")
VIEWS = {
    "": "section.card",
    "fleet": "div.row[data-harness]",
    "timeline": ".lanes .bar",
    "failures": "section.card",
    "money": "tbody tr",
    "stores": "section.card",
    "search": "input",
    "trading": "tbody tr",
    "trading/paper": "[data-part=fills] tbody tr",
    "coding": "tbody tr",
    "coding/fixer": "tbody tr",
    "coding/fixer/one": "section[data-step]",
    "h/healthy": "div.step",
    **{
        f"h/healthy/{tab}": "main .tabs + div > *"
        for tab in ("state", "output", "messages", "history", "effects", "transcript")
    },
    "h/blocked/history": "tbody tr",
}
"""Each view, and what it has when it is drawn."""
_STEPS = 20
_FIND = "async (impacts) => (await axe.run()).violations.filter((one) => impacts.includes(one.impact))"
ORDERS = {
    "": ("Approve", "Deny", "Start", "Restart"),
    "h/healthy": ("Pause", "Pause now", "Stop", "Restart"),
    "h/healthy/messages": ("Send", "Ask"),
}
"""Orders of some views."""
_MOST_TABS = 60


class Failing(BaseHarness[int, int, int]):
    """Fails in its second step."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1
        raise RuntimeError("the market is closed")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with content for each view."""
    folder = tmp_path_factory.mktemp("views")

    async def run() -> None:
        async with Orchestrator(folder / "run.db", handle_signals=False) as orchestrator:
            budget = Budget(steps=_STEPS)
            handles = [
                orchestrator.start(trading(), name="paper"),
                orchestrator.start(coding(folder), name="fixer"),
                orchestrator.start(Blocked(0), name="blocked"),
                orchestrator.start(Failing(0), name="failing", restart="temporary"),
            ]
            for harness in (Healthy(0), Halted(0), Asking(0)):
                orchestrator.start(harness, name=type(harness).__name__.lower(), budget=budget)
            for handle in handles:
                await handle.wait()
            orchestrator.stop(grace=0)

    try:
        trio.run(run)
    except* Exception:
        pass
    return folder / "run.db"


@pytest.fixture(scope="module")
def url(store: Path) -> Iterator[str]:
    with serving(store, {**os.environ, "ORCHESTRATOR_TOKEN": TOKEN}) as url:
        yield url


def test_no_view_has_a_serious_finding_of_axe(browser: Any, url: str) -> None:
    script = (npm_package(*AXE) / "axe.min.js").read_text()
    context = browser.new_context(viewport=SIZES["desk"], bypass_csp=True)
    page, origin, found = context.new_page(), url.partition("?")[0], dict[str, list[str]]()
    page.goto(url)
    page.evaluate(script)
    for view, drawn in VIEWS.items():
        page.evaluate("document.getElementById('main').replaceChildren()")  # nothing of the view before
        page.goto(f"{origin}#/{view}")
        page.locator(drawn).first.wait_for(state="attached")
        if view == "search":
            page.get_by_label("Search in records").fill("moved")
            page.keyboard.press("Enter")
        if view == "h/healthy":
            page.locator("div.step button").first.click()
            page.locator("div.step pre").first.wait_for()
        for size, viewport in SIZES.items():
            page.set_viewport_size(viewport)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                for one in page.evaluate(_FIND, SERIOUS):
                    found[f"{view} {size} {scheme} {one['id']}"] = [node["html"][:200] for node in one["nodes"]]
    context.close()
    assert found == {}


def test_every_order_is_reached_and_given_by_keyboard_alone(browser: Any, live: Live) -> None:
    page, origin = browser.new_page(viewport=SIZES["desk"]), live.url.partition("?")[0]
    page.goto(live.url)
    wait_for(lambda: status(live.store, "healthy")[1] > 1)
    for view, orders in ORDERS.items():
        page.goto(f"{origin}#/{view}")
        page.get_by_role("button", name=orders[-1], exact=True).first.wait_for()
        page.evaluate("document.activeElement.blur()")
        reached = set[str]()
        for _ in range(_MOST_TABS):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.tagName === 'BUTTON' ? document.activeElement.textContent : ''"))
        assert reached >= {*orders}, view

    for view, order, key, name, becomes in (
        ("", "Approve", "Enter", "asking", "running"),
        ("h/healthy", "Pause", "Space", "healthy", "paused"),
        ("h/healthy", "Resume", "Enter", "healthy", "running"),
        ("h/healthy", "Stop", "Enter", "healthy", "stopped"),
        ("h/healthy", "Start", "Space", "healthy", "running"),
    ):
        page.goto(f"{origin}#/{view}")
        button = page.get_by_role("button", name=order, exact=True)
        button.wait_for()
        page.evaluate("document.activeElement.blur()")
        for _ in range(_MOST_TABS):
            page.keyboard.press("Tab")
            if button.evaluate("(node) => node === document.activeElement"):
                break
        else:
            pytest.fail(f"{order} of {name} was not reached: {page.inner_text('body')}")
        page.keyboard.press(key)
        wait_for(
            lambda name=name, becomes=becomes: status(live.store, name)[0] == becomes,
            lambda order=order: f"{order}: {page.inner_text('body')}",
        )
    wait_for(lambda: status(live.store, "asking")[1] > 0)
    page.close()
