"""The views of trading and coding in a real browser: true figures, why it is halted, and texts of agents that stay texts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harnesses.trading.report.report_figures import account_of
from harnesses.trading.report.trading_report import steps
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from tests import ROOT
from tests.orchestrator.web.conftest import TOKEN, serving
from tests.orchestrator.web.ready_made_runs import record_both
from tests.orchestrator.web.test_page_browser import wait_for

PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_both(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def url(store: Path) -> Iterator[str]:
    with serving(store, {**os.environ, "ORCHESTRATOR_TOKEN": TOKEN}) as url:
        yield url


@pytest.fixture(params=["light", "dark"])
def page(browser: Any, url: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=request.param)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.goto(url)
    yield page
    context.close()
    assert problems == [], "nothing fails, and nothing is against the policy of the page"


def show(page: Any, url: str, view: str) -> None:
    page.goto(f"{url.partition('?')[0]}#/{view}")


def exact(page: Any, figure: str) -> Decimal:
    return Decimal(page.locator(f"[data-figure={figure}] [data-exact]").get_attribute("data-exact"))


def test_an_account_is_shown_with_the_figures_of_the_report_a_chart_and_why_it_is_halted(
    page: Any, url: str, store: Path
) -> None:
    figures = account_of(steps(SqliteReader(store), "paper")).figures
    show(page, url, "trading")
    page.get_by_role("link", name="paper").click()
    page.locator("section[data-risk=halted]").wait_for()

    assert "drawdown: equity" in page.locator("section[data-risk=halted]").inner_text()
    told = {name: exact(page, name) for name in ("equity", "gain", "fees")}
    assert told == {"equity": figures.last_equity, "gain": figures.gain, "fees": figures.fees}
    assert float(exact(page, "drawdown")) == figures.drawdown
    assert page.locator("[data-figure=trades] strong").inner_text() == str(figures.trades)
    assert page.locator("[data-part=fills] tbody tr").count() == figures.trades
    assert page.locator("[data-part='refused orders'] tbody tr").count() == figures.refused
    label = page.locator(".chart").get_attribute("aria-label")
    assert f" to {figures.last_equity:.2f}, drawdown {figures.max_drawdown:.2%} at most".replace("%", " %") in label
    assert page.locator(".chart canvas").count() >= 3
    assert "TradingView" in page.locator("a[href='https://www.tradingview.com/']").inner_text()


def test_what_agents_wrote_is_text_in_both_views(page: Any, url: str) -> None:
    show(page, url, "trading/paper")
    page.locator("[data-part=fills]").wait_for()
    assert r"cheap <img src=x onerror=alert(1)>\u202e\u001b[31m" in page.locator("[data-part=fills]").inner_text()
    show(page, url, "coding/fixer/one")
    first = page.locator("section[data-step]").last
    for summary in ("What the agent said", "Diff: 1 file"):
        first.get_by_text(summary).click()
    first.locator(".diff").wait_for()

    assert r"+wrong <img src=x onerror=alert(1)>\u202e" in first.locator(".diff .added").inner_text()
    assert page.locator("main img").count() == 0


def test_features_fill_up_with_tries_cost_evidence_and_diff(page: Any, url: str) -> None:
    show(page, url, "coding")
    page.get_by_role("link", name="fixer").click()
    page.locator("[data-figure=proven]").wait_for()

    assert page.locator("[data-figure=proven] strong").inner_text() == "2 of 3"
    assert "5,000 tokens" in page.locator("[data-figure='each proven one'] strong").inner_text()
    assert [mark.get_attribute("aria-label") for mark in page.locator(".marks").all()] == [
        "not validated, passed",
        "passed",
        "not validated, not validated, not validated",
    ]
    page.get_by_label("Status").select_option("blocked")
    assert page.locator("tbody tr").count() == 1
    page.get_by_role("link", name="three").click()
    page.get_by_text("grep ended with 1").first.wait_for()


@pytest.mark.parametrize("view", ["trading/paper", "coding/fixer", "coding/fixer/one"])
def test_on_a_phone_nothing_is_scrolled_sideways_and_the_keyboard_reaches_everything(page: Any, url: str, view: str) -> None:
    page.set_viewport_size(PHONE)
    show(page, url, view)
    page.locator("main .figure, main .card").first.wait_for()
    wait_for(lambda: page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"])

    reached: set[str] = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.className || document.activeElement.tagName"))
    assert reached >= ({"chart", "scroll", "SELECT"} if view.startswith("trading") else {"A"})


def test_an_account_that_trades_is_followed_as_it_goes(browser: Any, tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    command = [sys.executable, "-m", "tests.orchestrator.web.ready_made_runs", tmp_path, "0.05"]
    program = subprocess.Popen(command, cwd=ROOT)
    try:
        wait_for(store.exists)
        with serving(store, {**os.environ, "ORCHESTRATOR_TOKEN": TOKEN}) as url:
            page = browser.new_page()
            page.goto(url)
            wait_for(lambda: bool(page.request.get(f"{url.partition('?')[0]}api/trading").json()))
            show(page, url, "trading/paper")
            risk = page.locator("[data-figure=risk] .small")
            risk.wait_for()
            first = risk.inner_text()
            wait_for(lambda: risk.inner_text() != first)
            page.close()
    finally:
        program.kill()
        program.wait()
