"""What the README and `docs` show works as it is written.

A block marked `python` is a whole program, `py` a part of one, and `toml` with a `[[harness]]` in it a run file. Pages that
name the files that a reader writes are followed from top to bottom: see `tests.docs.sessions`.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.run.run_file import parse_run_file
from tests import ROOT
from tests.docs.sessions import BLOCK, NAMED, is_session, is_shown, play
from tests.zygote import run_python

PAGES = [
    path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.exists()
]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
BLOCKS = [
    pytest.param(mark, code, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, (mark, code) in enumerate(BLOCK.findall(TEXTS[page]), 1)
    if not NAMED.match(code)
]
RUN_FILES = [block for block in BLOCKS if block.values[0] == "toml" and "[[harness]]" in str(block.values[1])]
SESSIONS = [page for page in PAGES if is_session(TEXTS[page])]


@pytest.mark.parametrize(("mark", "code"), [block for block in BLOCKS if block.values[0] == "python"])
def test_a_program_that_is_shown_runs(mark: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "shown.py").write_text(code, encoding="utf-8")

    ran = run_python("shown.py", cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(("mark", "code"), [block for block in BLOCKS if block.values[0] == "py"])
def test_a_part_that_is_shown_is_python(mark: str, code: str) -> None:
    compile(code, "shown.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize(("mark", "code"), RUN_FILES)
def test_a_run_file_that_is_shown_can_be_read(mark: str, code: str, tmp_path: Path) -> None:
    assert parse_run_file(code, tmp_path / "run.toml").harnesses


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_typed_from_a_page_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    wrong = [
        f"$ {command.text}{printed}-- shown:\n{command.shown}"
        for command, printed in play(TEXTS[page], tmp_path)
        if not is_shown(printed, command.shown)
    ]

    assert not wrong, "\n".join([*wrong, f"if this is right: python -m tests.docs.sessions {page.relative_to(ROOT)}"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit_that_is_shown(tmp_path: Path) -> None:
    [(_, unit)] = [block for block in BLOCK.findall(TEXTS[ROOT / "docs" / "how-to" / "systemd.md"]) if block[0] == "ini"]
    file = tmp_path / "harnesses.service"
    file.write_text(unit.replace("/opt/harnesses/venv/bin/orchestrator", sys.executable), encoding="utf-8")

    said = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, timeout=60)

    assert (said.returncode, said.stdout + said.stderr) == (0, "")


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
