"""The two loops that are written out by hand do what the page about harnesses shows of them."""

from __future__ import annotations

import re

import pytest

from tests import ROOT
from tests.zygote import run_python

PAGE = ROOT / "docs" / "loops.md"


def shown(name: str) -> str:
    """Return what the page says that a program prints."""
    match = re.search(rf"\$ python examples/{name}\n((?:    .*\n)+)", PAGE.read_text(encoding="utf-8"))
    assert match is not None
    return "".join(f"{line[4:]}\n" for line in match[1].splitlines())


@pytest.mark.parametrize("name", ["polling.py", "feature_queue.py"])
def test_a_loop_prints_what_the_page_shows(name: str) -> None:
    ran = run_python(ROOT / "examples" / name, cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stdout) == (0, shown(name)), ran.stderr


@pytest.mark.parametrize("name", ["polling.py", "feature_queue.py"])
def test_a_loop_is_short(name: str) -> None:
    assert len((ROOT / "examples" / name).read_text(encoding="utf-8").splitlines()) < 70
