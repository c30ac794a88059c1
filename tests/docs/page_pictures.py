"""The pictures of the operator's page in the documentation: `python -m tests.docs.page_pictures` takes all of them anew.

They are of real runs in headless Chromium: one whose program is killed and goes on, and an account and a repository that are
recorded. It takes about a minute. Look at the pictures before you commit them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import frozen

from tests import ROOT
from tests.orchestrator.web.conftest import TOKEN, open_browser, serving
from tests.orchestrator.web.ready_made_runs import record_both

PLACE = ROOT / "docs" / "pictures"
_ALIVE_S, _GONE_S, _AGAIN_S = 11.0, 4.0, 7.0
"""Seconds for which the program runs, is gone, and runs again before the pictures are taken."""
_PATIENCE_MS = 30_000


@frozen
class Picture:
    """A picture of a view of the page."""

    name: str
    view: str
    ready: str
    """Selector of what must be shown first."""
    width: int
    height: int
    scale: float = 1.0
    is_below_head: bool = False
    """Whether the head of the page is left out."""


LIVE = (
    Picture("operator-fleet", "fleet", "[data-harness=nightly-export]", 1280, 520),
    Picture("operator-timeline", "timeline", "text=nightly-export", 1280, 520),
    Picture("operator-phone", "", "section.card[data-kind=approval]", 390, 760, 1.5),
)
RECORDED = (
    Picture("page-trading", "trading/paper", "[data-figure=equity]", 1280, 920, is_below_head=True),
    Picture("page-coding", "coding/fixer", "text=Last good commit", 1280, 640, is_below_head=True),
)


def take_all(place: Path = PLACE) -> list[Path]:
    """Take all pictures; return their files."""
    with TemporaryDirectory(prefix="orchestrator-") as folder, open_browser() as browser:
        recorded = record_both(Path(folder))
        with _running(Path(folder) / "run.db") as store:
            live = _take(browser, store, LIVE, place)
        return [*live, *_take(browser, recorded, RECORDED, place)]


@contextmanager
def _running(store: Path) -> Generator[Path]:
    """Give a store on which a program runs that was killed before."""
    command = [sys.executable, "-m", "tests.orchestrator.web.picture_program", str(store)]
    for seconds in (_ALIVE_S, _AGAIN_S):
        program = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            time.sleep(seconds)
            if seconds == _AGAIN_S:
                yield store
        finally:
            program.kill()
            program.wait()
        if seconds == _ALIVE_S:
            time.sleep(_GONE_S)


def _take(browser: Any, store: Path, pictures: tuple[Picture, ...], place: Path) -> list[Path]:
    with serving(store, {**os.environ, "ORCHESTRATOR_TOKEN": TOKEN}) as url:
        return [_take_one(browser, url, one, place / f"{one.name}.png") for one in pictures]


def _take_one(browser: Any, url: str, one: Picture, path: Path) -> Path:
    size = {"width": one.width, "height": one.height}
    context = browser.new_context(viewport=size, device_scale_factor=one.scale, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(_PATIENCE_MS)
    page.goto(url)
    page.goto(f"{url.partition('?')[0]}#/{one.view}")
    page.locator(one.ready).first.wait_for()
    page.wait_for_timeout(2500)  # what is asked once a second, and what is drawn after it
    if one.is_below_head:
        page.locator("header").evaluate("node => node.remove()")
    page.screenshot(path=path)
    context.close()
    return path


if __name__ == "__main__":
    print(*take_all(), sep="\n")
