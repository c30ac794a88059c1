"""Each package that imports what it exports when it is asked for lists the same names for type checkers and for itself."""

from __future__ import annotations

import ast

import pytest

from tests import ROOT

PACKAGES = [
    path.parent.relative_to(ROOT)
    for spine in ("harnesses", "orchestrator")
    for path in sorted((ROOT / spine).rglob("__init__.py"))
    if "lazy_exports" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_both_lists_of_exports_and_all_are_the_same(package):
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    (both,) = (node for node in tree.body if isinstance(node, ast.If))
    (table,) = (node for node in ast.walk(both.orelse[0]) if isinstance(node, ast.Dict))
    (exported,) = (node.value for node in tree.body if isinstance(node, ast.Assign))

    typed = {(node.module, alias.name) for node in both.body for alias in node.names}
    at_run_time = {(module, name) for module, names in ast.literal_eval(table).items() for name in names.split()}
    assert typed == at_run_time
    assert sorted(ast.literal_eval(exported)) == sorted(name for _, name in typed)
