"""The README promises nothing without a test that says in its first line which promise it is for."""

from __future__ import annotations

import ast
import re

import pytest

from tests import ROOT

ROWS = re.findall(r"^\| (G\d+) \|(.*)\|$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_every_guarantee_has_its_row() -> None:
    assert [name for name, _ in ROWS] == [f"G{number}" for number in range(1, 16)]


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_a_guarantee_names_tests_that_name_it(name: str, row: str) -> None:
    paths = re.findall(r"\((tests/[\w/]+\.py)\)", row)

    assert paths
    for path in paths:
        first_line = (ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or "").partition("\n")[0]
        assert re.search(rf"\b{name}\b", first_line), f"{path} does not say that it is for {name}"
