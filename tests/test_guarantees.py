"""`docs/guarantees.md` promises nothing without a test that says in its first line which promise it is for."""

from __future__ import annotations

import ast
import re

import pytest

from tests import ROOT

PAGE = ROOT / "docs" / "guarantees.md"
_SECTION = re.compile(r'^<a id="g(\d+)"></a>\n## G(\d+) \S.*?(?=^<a id=|^## |\Z)', flags=re.MULTILINE | re.DOTALL)
SECTIONS = [(f"G{found[2]}", f"G{found[1]}", found[0]) for found in _SECTION.finditer(PAGE.read_text(encoding="utf-8"))]
IDS = [f"G{number}" for number in range(1, 16)]


def test_every_guarantee_has_its_section_and_its_anchor() -> None:
    assert [(name, anchor) for name, anchor, _ in SECTIONS] == [(name, name) for name in IDS]


@pytest.mark.parametrize(("name", "section"), [(name, section) for name, _, section in SECTIONS])
def test_a_guarantee_names_tests_that_name_it(name: str, section: str) -> None:
    paths = re.findall(r"\(\.\./(tests/[\w/]+\.py)\)", section)

    assert paths
    for path in paths:
        first_line = (ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or "").partition("\n")[0]
        assert re.search(rf"\b{name}\b", first_line), f"{path} does not say that it is for {name}"


@pytest.mark.parametrize(("name", "section"), [(name, section) for name, _, section in SECTIONS])
def test_a_guarantee_says_what_it_excludes(name: str, section: str) -> None:
    assert "**Proven by**" in section
    assert "**Excluded:**" in section


def test_the_readme_lists_the_same_guarantees() -> None:
    rows = re.findall(r"^\| (?:\[|\*\*)*(G\d+)\b", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert rows in ([], IDS)
