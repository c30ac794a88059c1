"""What the README and `docs` show works as it is written: a block marked `python` is a whole program, `py` a part of one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests import ROOT
from tests.zygote import run_python

PAGES = [
    path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.exists()
]
_BLOCK = re.compile(r"^```(python|py)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(mark, code, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, (mark, code) in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8")), 1)
]


@pytest.mark.parametrize(("mark", "code"), [block for block in BLOCKS if block.values[0] == "python"])
def test_a_program_that_is_shown_runs(mark: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "shown.py").write_text(code, encoding="utf-8")

    ran = run_python("shown.py", cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(("mark", "code"), [block for block in BLOCKS if block.values[0] == "py"])
def test_a_part_that_is_shown_is_python(mark: str, code: str) -> None:
    compile(code, "shown.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_points_at_is_there(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", _prose(page)) if ":" not in link]

    assert [link for link in links if not _is_there(page, link)] == []


def _prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _is_there(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = page.parent / file if file else page
    return target.exists() and (not anchor or target.suffix != ".md" or anchor in _anchors(target))


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page: those of its headings, as code hosts and the site make them, and explicit ones."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), flags=re.MULTILINE)
    named = set(re.findall(r'^<a id="([^"]+)"></a>$', _prose(page), flags=re.MULTILINE))
    return named | {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
