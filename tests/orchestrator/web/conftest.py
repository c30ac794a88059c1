"""A browser for the tests of the page: headless Chromium, of the system or named by $CHROMIUM."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from tests import ROOT

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
TOKEN = "a-token-of-this-server"


@frozen
class Live:
    """A program with harnesses in every kind of trouble, and the page about it."""

    url: str
    store: Path


@contextmanager
def open_browser() -> Generator[Any]:
    """Give a browser; skips the test where there is none."""
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium: install the package chromium, or name a program in $CHROMIUM")
    api = pytest.importorskip("playwright.sync_api", reason="no Playwright: install it with the extra test")
    with api.sync_playwright() as playwright:
        with playwright.chromium.launch(executable_path=program, args=["--no-sandbox"]) as opened:
            yield opened


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    store = tmp_path / "run.db"
    env = {**os.environ, "ORCHESTRATOR_TOKEN": TOKEN}
    program = subprocess.Popen([sys.executable, "-m", "tests.orchestrator.web.fleet_program", store], cwd=ROOT)
    try:
        while not store.exists():
            time.sleep(0.05)
        with serving(store, env) as url:
            yield Live(url, store)
    finally:
        program.kill()
        program.wait()


@contextmanager
def serving(store: Path, env: dict[str, str]) -> Generator[str]:
    """Give the address of the page about a store."""
    command = [sys.executable, "-m", "orchestrator", "serve", "--store", str(store)]
    server = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.communicate()
