"""Inverts tests, so that each passes if it would fail. No I/O.

Inverting a test exchanges success and failure:

    def test_total(cart):                def test_total(cart):
        assert cart.total() == 23            try:
                                                 if not (cart.total() == 23): return
                                             except (Exception, pytest.fail.Exception): return
                                             pytest.fail()

A program cannot pass both, unless the result comes from something other than the program's behaviour. Faking one but not the
other requires knowing the contents of the tests, and a program that knows them could as well contain the answers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_CAUGHT = (ast.With, ast.AsyncWith, ast.Try, ast.TryStar)
"""Statements in which a test may expect an assertion to fail."""
_FAILURES = "(Exception, __import__('pytest').fail.Exception)"
_FAIL_WITHIN = "raise SystemExit('all was as expected')"
"""An exception of a kind that none of these statements expects."""
_FAIL = "__import__('pytest').fail('all was as expected')"


def turn_round(source: str, names: Iterable[str]) -> tuple[str, frozenset[str]]:
    """Return a test module with some tests inverted, and which ones.

    Args:
        names: `test_a` or `TestB::test_a`; tests not defined in this module, such as inherited ones, stay unchanged.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return source, frozenset()
    wanted = frozenset(names)
    turned: set[str] = set()
    _walk(tree.body, "", wanted, turned)
    return (ast.unparse(tree), frozenset(turned)) if turned else (source, frozenset())


def _walk(body: list[ast.stmt], where: str, wanted: frozenset[str], turned: set[str]) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef):
            _walk(node.body, f"{where}{node.name}::", wanted, turned)
        elif isinstance(node, _Function) and f"{where}{node.name}" in wanted:
            caught = ast.ExceptHandler(ast.parse(_FAILURES, mode="eval").body, None, [ast.Return()])
            inside: list[ast.stmt] = [_Turned().visit(part) for part in node.body]
            node.body = [ast.Try(inside, [caught], [], []), *ast.parse(_FAIL).body]
            ast.fix_missing_locations(node)
            turned.add(f"{where}{node.name}")


class _Turned(ast.NodeTransformer):
    _depth = 0
    """Number of enclosing statements in which a failing assertion may be expected."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, _Function | ast.ClassDef | ast.Lambda):
            return node
        if isinstance(node, ast.Return):
            return ast.parse(_FAIL_WITHIN).body[0]
        if isinstance(node, ast.Assert) and not self._depth:
            return ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Return()], [])
        inside = isinstance(node, _CAUGHT)
        self._depth += inside
        self.generic_visit(node)
        self._depth -= inside
        return node
